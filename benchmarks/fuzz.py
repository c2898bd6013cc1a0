"""Fuzzers of every stored format, and of requests to the service.

python benchmarks/fuzz.py prun --count 1000000 --seed 1     # one format: so many mutants
python benchmarks/fuzz.py all --seconds 60                  # each for so long, in a process of its own
python benchmarks/fuzz.py prun --seed 1 --only 4711         # one mutant again
python benchmarks/fuzz.py runtime --count 1000000           # the C runtime, under AddressSanitizer and UBSan
python benchmarks/fuzz.py prun --seed 1 --start 4711 --count 100
python benchmarks/fuzz.py kills                             # every command killed at each of its file operations,
python benchmarks/fuzz.py kills --every 5                   # or at each fifth
python benchmarks/fuzz.py kills --command compare --start 240

Mutants are made in memory, or on a file system in memory, from files of tiny networks. The last line of each is
`NAME_findings: 0`, or the process fails.
"""

import argparse
import subprocess
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

FORMATS = {
    "prun": "Prun",
    "folders": "Folders",
    "exports": "Exports",
    "images": "Images",
    "documents": "Documents",
    "serve": "Serve",
}
ROOT = Path(__file__).parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", nargs="?", choices=[*FORMATS, "runtime", "kills", "all"], default="all")
    parser.add_argument("--count", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--command", help="of kills: this one alone")
    told = parser.parse_args()
    seconds = 20.0 if told.count is None and told.seconds is None else told.seconds
    if told.format == "all":
        told_limits = [f"--{name}={value}" for name, value in (("count", told.count), ("seconds", seconds)) if value]
        command = [sys.executable, __file__]
        codes = [subprocess.run([*command, name, *told_limits, f"--seed={told.seed}"]).returncode for name in FORMATS]
        return max(codes)
    if told.format == "runtime":
        return min(1, import_module("fuzzing.runtime").fuzz_runtime(told.seed, told.count, told.only))
    if told.format == "kills":
        sys.path.insert(0, str(ROOT))
        return int(
            import_module("tests.reliability.commands").kill_everywhere(told.every, max(1, told.start), told.command)
        )
    limits = {"count": told.count, "seconds": seconds, "only": told.only, "start": told.start}
    return _fuzz(told.format, told.seed, limits)


def _fuzz(name: str, seed: int, limits: dict[str, Any]) -> int:
    import torch

    from fuzzing.harness import fuzz

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        canary = Path(folder) / "canary"
        subject = getattr(import_module(f"fuzzing.{name}"), FORMATS[name])(canary)
        return min(1, fuzz(subject, canary, seed=seed, **limits))


if __name__ == "__main__":
    sys.exit(main())
