"""The C runtime under sanitizers: `runtime.c` makes the mutants of these files and runs them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import prunnet
from fuzzing.networks import CAPACITIES, VIT, network
from prunnet.runtime.compiling import compile_library

SANITIZERS = ("-g", "-O1", "-D_GNU_SOURCE", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
MEMORY = "allocator_may_return_null=1:max_allocation_size_mb=512"
PIECE = 25_000  # mutants a process


def fuzz_runtime(seed: int, count: int | None, only: int | None) -> int:
    """How many pieces ended with a finding; the driver says which mutant it was."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.runtime.networks import GRID, every_operation

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        networks = {"every": every_operation(), "resnet": network(), "vit": network("vit_tiny_patch16_224", **VIT)}
        files = [
            prunnet.pack(net, folder / f"{which}-{values}.prun", grid=grid, values=values, runtime=True)
            for which, net in networks.items()
            for values in ("float16", "int8")
            for grid in [GRID if which == "every" else CAPACITIES]
        ]
        compile_library(folder / "fuzz", flags=SANITIZERS, files=[Path(__file__).with_suffix(".c")])
        pieces = [(seed, -only)] if only else [(seed + i, PIECE) for i in range(-(-(count or PIECE) // PIECE))]
        findings = 0
        for number, mutants in pieces:
            command = [folder / "fuzz", str(number), str(mutants), *files]
            ran = subprocess.run(command, env={**os.environ, "ASAN_OPTIONS": MEMORY}, capture_output=True, text=True)
            findings += ran.returncode != 0
            print(f"seed {number}: {ran.stdout.strip()} {ran.stderr[-2000:] if ran.returncode else ''}", flush=True)
    print(f"runtime: {len(pieces) * PIECE} mutants from seed {seed} on")
    print(f"runtime_findings: {findings}", flush=True)
    return findings
