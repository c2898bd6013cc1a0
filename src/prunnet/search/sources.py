"""The images that go into a gallery, or ask it: a picture, a folder, a manifest, or a data set by its name."""

import os
from pathlib import Path
from typing import Literal

from prunnet.data import UNLABELLED, ImageSet, load_data
from prunnet.data.image_files import ImageFile, image_set, names_of
from prunnet.data.images import FilePixels
from prunnet.data.lists import is_image
from prunnet.data.table import is_table, load_table
from prunnet.errors import SearchError
from prunnet.search.columns import Value

Part = Literal["query", "gallery"]


def images_in(
    source: str | os.PathLike[str], root: str | os.PathLike[str] | None = None, part: Part = "gallery"
) -> ImageSet:
    """Every image in a folder and the folders in it, a class for each folder directly in it; one picture alone; every
    row of a table (.csv, .parquet, or a folder of .parquet files); or of a manifest or data set its `part`.
    """
    place = Path(source).expanduser()
    folder = None if root is None else Path(root)
    if is_table(place):
        return load_table([place], folder)
    if root is None and place.is_dir():
        return _in_folder(place)
    if root is None and place.is_file() and is_image(place):
        return image_set([ImageFile(place, None)], [], place.parent)
    data = load_data(str(source), folder)
    return data.query if part == "query" else data.gallery


def _in_folder(folder: Path) -> ImageSet:
    files = [
        ImageFile(path, parts[0] if len(parts := path.relative_to(folder).parts) > 1 else None)
        for path in sorted(folder.rglob("*"))
        if is_image(path)
    ]
    if files:
        return image_set(files, names_of(files), folder)
    if tables := sorted(folder.glob("*.parquet")):
        return load_table(tables)
    raise SearchError(f"{folder} holds no images")


def described(images: ImageSet, index: int) -> dict[str, Value]:
    """What a gallery keeps of an image beside its vector: where it is, what part of it, and its class."""
    metadata: dict[str, Value] = {}
    if (path := images.path(index)) is not None:
        metadata["path"] = str(path.resolve())
        if isinstance(images.pixels, FilePixels) and images.pixels.boxes and (box := images.pixels.boxes[index]):
            metadata["box"] = " ".join(map(repr, box))
    if (label := label_of(images, index)) is not None:
        metadata["label"] = label
    return metadata


def label_of(images: ImageSet, index: int) -> str | None:
    """The class of an image, if it is known."""
    label = int(images.labels[index])
    return None if label == UNLABELLED else images.label_names[label]
