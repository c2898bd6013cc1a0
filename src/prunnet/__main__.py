"""The command `prunnet`, and `python -m prunnet` for torchrun and for machines whose PATH lacks the script."""

import sys


def run() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it like any later one."""
    try:
        from prunnet.cli import main

        main()
    except KeyboardInterrupt:
        print("prunnet: stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    run()
