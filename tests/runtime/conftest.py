import ctypes
from pathlib import Path

import pytest
from tests.runtime.networks import GRID, every_operation

import prunnet
from prunnet.runtime.compiling import compile_library, compiler


@pytest.fixture(scope="session")
def net() -> prunnet.PrunableNetwork:
    """A network with every operation; tests leave it as it is."""
    return every_operation()


@pytest.fixture(scope="session")
def packed(net, tmp_path_factory) -> Path:
    """Its file, in half precision."""
    return prunnet.pack(net, tmp_path_factory.mktemp("pack") / "every.prun", grid=GRID, runtime=True)


@pytest.fixture(scope="session")
def functions(tmp_path_factory) -> ctypes.CDLL:
    """The library with every function of its parts to be called."""
    if compiler() is None:
        pytest.skip("no C compiler")
    target = tmp_path_factory.mktemp("library") / "parts.so"
    compile_library(target, flags=("-O1", "-fvisibility=default"))
    return ctypes.CDLL(str(target))
