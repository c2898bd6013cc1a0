"""Reads the few published files that exist only as pickles, without running what a pickle may ask to run.

Only containers, numbers, strings and numeric arrays come out. No name in the file is ever imported: those of arrays
stand for the inert classes below, any other is refused.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from prunnet.errors import DataError


class _Dtype:
    def __init__(self, name: str | bytes, *_: Any) -> None:
        self.dtype = np.dtype(_text(name))
        if self.dtype.kind not in "biufSU":
            raise pickle.UnpicklingError(f"arrays of {self.dtype} are not read")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if _text(state[1]) == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _Array:
    array: Any = None

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Dtype, bool, bytes | str]) -> None:
        _, shape, kind, fortran, data = state
        raw = data.encode("latin-1") if isinstance(data, str) else data
        self.array = np.frombuffer(raw, kind.dtype).reshape(shape, order="F" if fortran else "C").copy()


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _frombuffer(data: bytes, kind: _Dtype, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, kind, order == "F", data))
    return array


def _scalar(kind: _Dtype, data: bytes | str) -> Any:
    raw = data.encode("latin-1") if isinstance(data, str) else data
    return np.frombuffer(raw, kind.dtype)[0].item()


def _encode(text: str, encoding: str) -> bytes:
    return text.encode({"latin1": "latin-1", "latin-1": "latin-1"}[encoding])


def _no_bytes() -> bytes:
    return b""  # how the older protocols spell the empty one


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): _no_bytes,
    ("builtins", "bytes"): _no_bytes,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _reconstruct for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _frombuffer for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None


def read_plain_pickle(file: Path) -> Any:
    """The content of `file`, with text written by Python 2 decoded as Latin-1."""
    try:
        with file.open("rb") as stream:
            return _plain(_PlainUnpickler(stream, encoding="latin-1").load())
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except Exception as error:  # damaged pickles raise whatever the misread bytes lead to
        raise DataError(f"{file}: not a pickle of plain data ({error})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(item) for item in value)
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__}")
