"""Your own images, one line each: a CSV or Parquet file with the columns

path        of the image, relative to the manifest (or to `root`)
label       the class
split       train, or test (`validation` and `val` say the same)
is_query, is_gallery    of test images: 1 or 0; without these columns every test image asks all others
camera      optional; with it, answers from the query's own camera are ignored
bbox        optional; left upper right lower, in pixels
"""

import re
from collections.abc import Iterator
from pathlib import Path

from prunnet.data.image_files import ImageFile, retrieval_data
from prunnet.data.images import Box
from prunnet.data.lists import Row, check_columns, read_csv, require_rows
from prunnet.data.parquet import open_parquet, reading
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.errors import DataError

REQUIRED = ("path", "label", "split")
TEST_SPLITS = ("test", "validation", "val")


def load_manifest(file: Path, root: Path | None = None, metric: str = "mAP") -> RetrievalData:
    """The images that `file` lists."""
    if not file.is_file():
        raise DataError(f"{file}: no such file")
    folder = file.parent if root is None else root
    rows = require_rows(_read_parquet(file) if file.suffix == ".parquet" else read_csv(file, REQUIRED), file)
    cameras = _numbered(rows)
    train, query, gallery, test_split = [], [], [], None
    for row in rows:
        image_file = _image_file(row, folder, cameras)
        if row["split"] == "train":
            train.append(image_file)
            continue
        asks, answers = _part(row, test_split)
        test_split = row["split"]
        if asks:
            query.append(image_file)
        if answers:
            gallery.append(image_file)
    for part, image_files in (("query", query), ("gallery", gallery)):
        if not image_files:
            raise DataError(f"{file}: has no {part} images; give test rows with is_{part} 1")
    both = {id(image_file) for image_file in query} & {id(image_file) for image_file in gallery}
    if both and not len(both) == len(query) == len(gallery):
        raise DataError(
            f"{file}: {len(both)} images are query and gallery at once while others are not; "
            "make all test images both, or none"
        )
    protocol = Protocol(metric=metric, same_set=bool(both), camera_junk=bool(cameras))
    return retrieval_data(file.stem, folder, train or None, gallery if both else query, gallery, protocol)


def _part(row: Row, test_split: str | None) -> tuple[bool, bool]:
    """Whether a test image asks and whether it answers; `test_split` is what the rows before call the test images."""
    if row["split"] not in TEST_SPLITS:
        raise row.error(f"split must be train or test, found {row['split']!r}")
    if test_split not in (None, row["split"]):
        raise row.error(f"split {row['split']!r} beside {test_split!r}: a manifest describes one evaluation")
    asks, answers = _flag(row, "is_query"), _flag(row, "is_gallery")
    if not (asks or answers):
        raise row.error(f"a {row['split']} image must be a query, or in the gallery, or both")
    return asks, answers


def _read_parquet(file: Path) -> Iterator[Row]:
    reader = open_parquet(file)
    with reading(file):
        table = reader.read()
    check_columns(file, table.column_names, REQUIRED)
    for number, values in enumerate(table.to_pylist(), 1):
        yield Row(file, number, {name: as_text(value) for name, value in values.items()})


def as_text(value: object) -> str:
    """A value of a Parquet file as a CSV file would have it."""
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return "" if value is None else str(value)


def _image_file(row: Row, folder: Path, cameras: dict[str, int]) -> ImageFile:
    if not row["path"] or not row["label"]:
        raise row.error("path and label must not be empty")
    camera = cameras[row["camera"]] if cameras else None
    return ImageFile(folder / row["path"], row["label"], camera, box_of(row))


def _numbered(rows: list[Row]) -> dict[str, int]:
    """Cameras are named by anything; inside they are numbers."""
    if "camera" not in rows[0].fields:
        return {}
    nameless = next((row for row in rows if not row["camera"]), None)
    if nameless is not None:
        if any(row["camera"] for row in rows):
            raise nameless.error("camera is empty; give it for every image, or leave the column out")
        return {}
    return {camera: number for number, camera in enumerate(sorted({row["camera"] for row in rows}))}


def _flag(row: Row, column: str) -> bool:
    value = row.fields.get(column)
    if value is None:
        return True
    if value.lower() in ("1", "1.0", "true", "yes"):
        return True
    if value.lower() in ("0", "0.0", "false", "no", ""):
        return False
    raise row.error(f"{column} must be 1 or 0, found {value!r}")


def box_of(row: Row) -> Box | None:
    """The part of the image that counts."""
    text = row.fields.get("bbox", "").strip()
    if not text:
        return None
    try:
        left, upper, right, lower = (float(edge) for edge in re.split(r"[\s,;]+", text.strip("[]() ")))
    except ValueError:
        raise row.error(f"bbox must be four numbers, left upper right lower; found {text!r}") from None
    if left >= right or upper >= lower:
        raise row.error(f"bbox must have left < right and upper < lower; found {text!r}")
    return left, upper, right, lower
