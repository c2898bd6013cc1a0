"""`python -m prunnet`, for torchrun and for machines whose PATH lacks the script."""

from prunnet.cli import main

if __name__ == "__main__":
    main()
