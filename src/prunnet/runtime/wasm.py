"""The C library for browsers: `make wasm` writes js/prunnet.wasm.gz; `--check` compares it with what the source gives.

Compiled by ziglang, which brings clang and a C library for WebAssembly; constraints.txt pins it, since another release
may give other bytes.
"""

import argparse
import gzip
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from prunnet.runtime.compiling import EXACT, KERNELS, SOURCES

TARGET = Path(__file__).parent / "js" / "prunnet.wasm.gz"
_FLAGS = ("-target", "wasm32-wasi", "-std=c11", "-msimd128", "-fvisibility=hidden")
_LINK = (
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-Oz", "-s", "-Wl,--gc-sections", "-Wl,-z,stack-size=262144"),
    *("-Wl,--export-dynamic", "-Wl,--export=malloc", "-Wl,--export=free"),
)


def build(target: Path, command: Sequence[str] = ()) -> None:
    """Write `target`, for size: kernels for speed are no faster. It imports nothing."""
    told = shlex.split(os.environ.get("ZIG", ""))
    zig = [*(command or told or (sys.executable, "-m", "ziglang")), "cc"]
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for source in sorted(SOURCES.glob("*.c")):
            if source.name.startswith("kernels_"):  # other processors' instructions
                continue
            objects.append(str(Path(folder) / f"{source.stem}.o"))
            how = ("-Os", *KERNELS) if source.name.startswith("kernels") else ("-Oz", *EXACT)
            subprocess.run([*zig, *_FLAGS, *how, "-c", str(source), "-o", objects[-1]], check=True)
        subprocess.run([*zig, *_LINK, "-o", str(target), *objects, "-lm"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the source gives other bytes")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "prunnet.wasm"
        build(made)
        content = made.read_bytes()
    if told.check:
        same = TARGET.is_file() and gzip.decompress(TARGET.read_bytes()) == content
        print(f"{TARGET.name} is {'what' if same else 'not what'} the source gives")
        return 0 if same else 1
    TARGET.write_bytes(gzip.compress(content, 9, mtime=0))
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes, {len(content):,} unpacked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
