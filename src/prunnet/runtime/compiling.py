"""The C library from its sources, by whatever compiler there is. The installer runs this file too, alone."""

import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCES = Path(__file__).parent / "c"
FLAGS = ("-O3", "-std=c11", "-fPIC", "-fvisibility=hidden", "-pthread")
EXACT = ("-ffp-contract=off",)  # what encoder and decoder, or Pillow, have to agree on in every bit
KERNELS = ("-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math")
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"


class CompileError(Exception):
    """No compiler, or one that fails."""


def compiler() -> list[str] | None:
    """The command of a C compiler: `CC`, the system's, or clang as the package `ziglang` brings it."""
    if told := shlex.split(os.environ.get("CC", "")):
        return told
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else None


def library_name() -> str:
    """Of the library that the sources here make; other sources make another."""
    digest = hashlib.sha256()
    for file in sorted((*SOURCES.glob("*.h"), *SOURCES.glob("*.c"))):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    digest.update(" ".join((*FLAGS, *EXACT, *KERNELS)).encode())
    return f"libprunnet-{digest.hexdigest()[:16]}{SUFFIX}"


def compile_library(
    target: Path, command: Sequence[str] | None = None, *, flags: Sequence[str] = (), files: Sequence[Path] = ()
) -> None:
    """Make `target`, a library, or with a main function among `files` a program; `flags` go to every step."""
    command = command or compiler()
    if command is None:
        raise CompileError("there is no C compiler")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:

        def compiled(source: Path) -> str:
            out = str(Path(folder) / f"{source.stem}.o")
            contraction = KERNELS if source.name.startswith("kernels") else EXACT
            _run([*command, *FLAGS, *contraction, *flags, "-I", str(SOURCES), "-c", str(source), "-o", out])
            return out

        objects = list(pool.map(compiled, (*sorted(SOURCES.glob("*.c")), *files)))
        shared = () if files else ("-shared",)
        _run([*command, *flags, *shared, "-pthread", "-o", str(target), *objects, "-lm"])


def _run(command: Sequence[str]) -> None:
    try:
        found = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be run ({error.strerror})") from error
    if found.returncode:
        lines = [line for line in found.stderr.splitlines() if "error" in line] or found.stderr.splitlines()
        raise CompileError(f"{command[0]} failed: {lines[0] if lines else found.returncode}")
