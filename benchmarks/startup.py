"""Start-up: `import prunnet` against `import torch`, and the time until `prunnet --help` answers.

    python benchmarks/startup.py

Targets: import at most 1.1 times torch's own; help in under 0.5 s.
"""

import subprocess
import sys

from _timing import show
from prunnet._timing import medians


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


seconds = medians(
    {
        "import torch": lambda: run("-c", "import torch"),
        "import torch, prunnet": lambda: run("-c", "import torch, prunnet"),
        "import prunnet": lambda: run("-c", "import prunnet"),
        "prunnet --help": lambda: run("-m", "prunnet", "--help"),
    },
    rounds=7,
)
show(seconds)
print(f"import_prunnet_over_torch: {seconds['import torch, prunnet'] / seconds['import torch']:.3f}")
print(f"help_seconds: {seconds['prunnet --help']:.3f}")
