"""Images in a table, without a split: CSV or Parquet files with the columns

path     of the image, relative to the file (or to `root`); or, in Parquet, instead of it
image    the encoded picture itself: bytes, or a struct with a field `bytes`
label    optional; the class
id       optional; by default the path, or else the name of the file and the number of the row
bbox     optional, beside path; left upper right lower, in pixels
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from prunnet.data.image_files import ImageFile, image_set, names_of
from prunnet.data.images import ImageSet
from prunnet.data.lists import Row, check_columns, read_csv
from prunnet.data.manifest import as_text, box_of
from prunnet.data.parquet import ParquetPixels, holds_bytes, open_parquet, reading
from prunnet.errors import DataError

PICTURE = "image"
ROWS_AT_ONCE = 2**16


def is_table(file: Path) -> bool:
    """Whether `file` is one of these; with a split it is a manifest, unless it holds the pictures themselves."""
    if not file.is_file() or file.suffix not in (".csv", ".parquet"):
        return False
    return "split" not in _columns(file) or _holds_pictures(file)


def load_table(files: Sequence[Path], root: Path | None = None) -> ImageSet:
    """Every image of `files`, in order."""
    folder = files[0].parent if root is None else root
    encoded = _holds_pictures(files[0])
    listed, given, rows = [], [], []
    for number, file in enumerate(files):
        for row in _rows(file, PICTURE if encoded else "path"):
            label, path = row.fields.get("label") or None, row.fields.get("path") or None
            if path is None and not encoded:
                raise row.error("path must not be empty")
            listed.append(ImageFile(folder / (path or file), label, None, None if encoded else box_of(row)))
            given.append(row.fields.get("id") or path or f"{file.stem}/{row.number}")
            rows.append((number, row.number - 1))
    if not listed:
        raise DataError(f"{files[0]}: lists no images")
    _check_once(given, files[0])
    images = image_set(listed, names_of(listed), folder)
    pixels = ParquetPixels(files, PICTURE, rows) if encoded else images.pixels
    return ImageSet(pixels, images.labels, images.label_names, given)


def _columns(file: Path) -> list[str]:
    if file.suffix == ".parquet":
        names: list[str] = open_parquet(file).schema_arrow.names
        return names
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        return [name.strip() for name in next(csv.reader(stream), [])]


def _holds_pictures(file: Path) -> bool:
    return file.suffix == ".parquet" and holds_bytes(open_parquet(file).schema_arrow, PICTURE)


def _rows(file: Path, required: str) -> Iterator[Row]:
    """What is known about each image; of a Parquet file without reading the pictures."""
    if file.suffix == ".csv":
        yield from read_csv(file, (required,))
        return
    reader = open_parquet(file)
    known = [name for name in check_columns(file, reader.schema_arrow.names, (required,)) if name in _KNOWN]
    if not known:
        yield from (Row(file, number, {}) for number in range(1, reader.metadata.num_rows + 1))
        return
    number = 0
    with reading(file):
        for part in reader.iter_batches(ROWS_AT_ONCE, columns=known):
            for values in part.to_pylist():
                number += 1
                yield Row(file, number, {name: as_text(value) for name, value in values.items()})


_KNOWN = ("path", "label", "id", "bbox")


def _check_once(ids: Sequence[str], file: Path) -> None:
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
        raise DataError(f"{file}: {twice!r} is there twice; a column id tells images apart")
