"""Parquet files, and pictures that are stored in them."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from prunnet._pictures import decode_picture
from prunnet.errors import DataError, MissingExtraError, UnreadableImageError

ROWS_AT_ONCE = 32
BUFFER = 2**20


def open_parquet(file: Path | str) -> Any:
    """A file that is read a stretch at a time: pyarrow would read whole row groups, which may be gigabytes."""
    with reading(file) as parquet:
        return parquet.ParquetFile(file, pre_buffer=False, buffer_size=BUFFER)


@contextmanager
def reading(file: Path | str) -> Iterator[Any]:
    """`pyarrow.parquet`, whose complaints become one line about `file`."""
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "Reading Parquet") from None
    try:
        yield pyarrow.parquet
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{file}: not a Parquet file, or damaged ({error})".replace("\n", " ")) from None


def holds_bytes(schema: Any, column: str) -> bool:
    """Whether there is such a column, of bytes or of structs with a field `bytes`."""
    from pyarrow import types

    if column not in schema.names:
        return False
    kind = schema.field(column).type
    if types.is_struct(kind):
        return bool(kind.get_field_index("bytes") >= 0)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


class ParquetPixels:
    """Encoded pictures in a column of Parquet files, decoded when asked for and converted to RGB.

    They are read onwards, so asking in the order of the rows costs one pass. `rows` are pairs: which file, which row.
    The column holds bytes, or structs with a field `bytes`.
    """

    def __init__(self, files: Sequence[Path | str], column: str, rows: Sequence[tuple[int, int]] | npt.NDArray[Any]):
        self.files = [str(file) for file in files]
        self.column = column
        self.rows: npt.NDArray[np.int64] = np.asarray(rows, dtype=np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.rows)

    def open(self, index: int) -> Image.Image:
        number, row = self.rows[index].tolist()
        file = self.files[number]
        encoded = _cursor(file, self.column).at(row)
        name = f"{file}:{row + 1}"
        if encoded is None:
            raise UnreadableImageError(f"{name}: there is no picture")
        image = decode_picture(encoded, name)
        return image if image.mode == "RGB" else image.convert("RGB")

    def take(self, indices: npt.NDArray[np.int64]) -> "ParquetPixels":
        return ParquetPixels(self.files, self.column, self.rows[indices])


class _Cursor:
    """The values of a column. Asked for in order each is read once; for one further back its group begins anew."""

    def __init__(self, file: str, column: str) -> None:
        self.file, self.column = file, column
        self.reader = open_parquet(file)
        groups = self.reader.metadata
        self.starts = np.cumsum([0] + [groups.row_group(group).num_rows for group in range(groups.num_row_groups)])
        self.stretches: Iterator[Any] = iter(())
        self.first = self.end = 0
        self.values: Any = None
        self.lock = Lock()

    def at(self, row: int) -> bytes | None:
        with self.lock, reading(self.file):
            if row < self.first or (row >= self.end and self._group(row) != self._group(self.end - 1)):
                self._begin(self._group(row))
            while row >= self.end:
                values = next(self.stretches).column(0)
                self.first, self.end = self.end, self.end + len(values)
                self.values = values.field("bytes") if hasattr(values, "field") else values  # of a struct
            encoded: bytes | None = self.values[row - self.first].as_py()
            return encoded

    def _group(self, row: int) -> int:
        return int(np.searchsorted(self.starts, row, "right")) - 1

    def _begin(self, group: int) -> None:
        groups = list(range(group, len(self.starts) - 1))
        options = {"batch_size": ROWS_AT_ONCE, "row_groups": groups, "columns": [self.column], "use_threads": False}
        self.stretches = self.reader.iter_batches(**options)
        self.first = self.end = int(self.starts[group])


def _cursor(file: str, column: str) -> _Cursor:
    """That of this process; a file that was written again gets another."""
    with reading(file):
        status = Path(file).stat()
    return _opened(file, column, status.st_size, status.st_mtime_ns, os.getpid())


@lru_cache(maxsize=16)
def _opened(file: str, column: str, *_identity: int) -> _Cursor:
    return _Cursor(file, column)
