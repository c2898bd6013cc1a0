import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.runtime.networks import SIDE, EveryOperation

import prunnet
from prunnet.errors import LibraryError
from prunnet.runtime import compiling, library
from prunnet.runtime.compiling import CompileError, compile_library, library_name

MAIN = Path(__file__).parent / "embed.c"


def test_the_name_of_a_library_tells_its_sources(monkeypatch, tmp_path) -> None:
    before = library_name()
    shutil.copytree(compiling.SOURCES, tmp_path / "c")
    monkeypatch.setattr(compiling, "SOURCES", tmp_path / "c")
    assert library_name() == before
    (tmp_path / "c" / "api.c").write_text("")
    assert library_name() != before


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PRUNNET_CACHE", str(tmp_path))
    monkeypatch.setattr(compiling, "compiler", lambda: None)
    with pytest.raises(LibraryError, match=r"there is no C compiler; install .* pip install ziglang"):
        library._compiled()
    assert not list(tmp_path.glob("*.so"))


def test_a_compiler_is_looked_for_in_order(monkeypatch) -> None:
    monkeypatch.setenv("CC", "ccache clang")
    assert compiling.compiler() == ["ccache", "clang"]
    monkeypatch.delenv("CC")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "clang" else None)
    assert compiling.compiler() == ["/bin/clang"]
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    assert compiling.compiler() == [sys.executable, "-m", "ziglang", "cc"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert compiling.compiler() is None


def test_a_compiler_that_fails_is_named(tmp_path) -> None:
    with pytest.raises(CompileError, match=r"false failed"):
        compile_library(tmp_path / "a.so", ["false"])
    with pytest.raises(CompileError, match=r"/nowhere/cc cannot be run"):
        compile_library(tmp_path / "a.so", ["/nowhere/cc"])


def embedded(command: list[str], packed: Path, capacity: float, image: torch.Tensor, folder: Path) -> torch.Tensor:
    """By a program of C alone."""
    (folder / "image").write_bytes(image.numpy().tobytes())
    arguments = [*command, str(folder / "embed"), str(packed), str(capacity), str(folder / "image")]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return torch.from_numpy(np.array(ran.stdout.split(), np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["here", "aarch64"])
def test_a_program_of_c_alone_embeds_as_torch_does(target, packed, tmp_path) -> None:
    command, run = compiling.compiler(), []
    flags: tuple[str, ...] = ()
    if target != "here":
        run = [shutil.which(f"qemu-{target}") or shutil.which(f"qemu-{target}-static") or ""]
        zig = os.environ.get("ZIG") or (f"{sys.executable} -m ziglang" if importlib.util.find_spec("ziglang") else "")
        if not run[0] or not zig:
            pytest.skip("needs qemu-user and ziglang")
        command, flags = [*zig.split(), "cc"], ("-target", f"{target}-linux-musl", "-static")
    if command is None:
        pytest.skip("no C compiler")
    compile_library(tmp_path / "embed", command, flags=flags, files=[MAIN])
    image = torch.randn(3, SIDE, SIDE)
    for capacity in (0.2, 1.0):
        expected = prunnet.unpack(packed, capacity, backbone=EveryOperation())(image[None])[0]
        assert embedded(run, packed, capacity, image, tmp_path) @ expected >= 0.99999
