"""The C library, loaded: as it was installed, or compiled on first use into the user's cache."""

import os
from ctypes import CDLL, POINTER, c_char_p, c_double, c_int, c_size_t, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from prunnet._files import write_atomically
from prunnet.errors import CapacityError, FamilyError, ImageError, LibraryError, PrunNetError
from prunnet.runtime.compiling import SOURCES, CompileError, compile_library, library_name

ERRORS: dict[int, type[PrunNetError]] = {1: FamilyError, 2: CapacityError, 3: ImageError}

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "open": (c_int, [POINTER(c_void_p), c_char_p, c_size_t]),
    "close": (None, [c_void_p]),
    "append": (c_int, [c_void_p, c_char_p, c_size_t]),
    "plan": (c_int, [c_void_p, c_double, c_int]),
    "embed_picture": (c_int, [c_void_p, c_char_p, c_int, c_int, c_int, c_void_p]),
    "embed_image": (c_int, [c_void_p, c_void_p, c_void_p]),
    "preprocess": (c_int, [c_void_p, c_char_p, c_int, c_int, c_int, c_void_p]),
    "message": (c_char_p, [c_void_p]),
    "capacity": (c_double, [c_void_p]),
    "bytes": (c_uint64, [c_void_p]),
    "arena_bytes": (c_uint64, [c_void_p]),
}


@cache
def library() -> CDLL:
    """The functions of prunnet.h."""
    return declared(CDLL(str(_found() or _compiled())))


def declared(loaded: CDLL) -> CDLL:
    """`loaded` with the types of its functions."""
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, f"prunnet_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


def _found() -> Path | None:
    """The library of these very sources, beside them or in the cache."""
    name = library_name()
    return next((place / name for place in (SOURCES, _cache()) if (place / name).is_file()), None)


def _compiled() -> Path:
    target = _cache() / library_name()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with write_atomically(target) as temporary:
            compile_library(temporary)
    except CompileError as error:
        raise LibraryError(
            f"the runtime is a C library, which could not be compiled: {error}; install a C compiler, for instance by "
            "pip install ziglang"
        ) from error
    except OSError as error:
        raise LibraryError(
            f"the runtime's library could not be written to {target} ({error.strerror}); set PRUNNET_CACHE to a folder "
            "that can be written"
        ) from error
    return target


def _cache() -> Path:
    """`PRUNNET_CACHE`, or where this user's caches are."""
    if told := os.environ.get("PRUNNET_CACHE"):
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prunnet"
