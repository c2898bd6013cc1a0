"""What every loader collects, and how it becomes an `ImageSet`."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from prunnet.data.images import UNLABELLED, Box, FilePixels, ImageSet
from prunnet.data.retrieval import Protocol, RetrievalData


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file and what is known about it. A `label` of None belongs to no class."""

    path: Path | str
    label: str | None
    camera: int | None = None
    box: Box | None = None


def names_of(*groups: Iterable[ImageFile]) -> list[str]:
    """The classes that occur, in order of their name (whole numbers in order of size)."""
    labels = {file.label for group in groups for file in group if file.label is not None}
    return sorted(labels, key=lambda name: (0, int(name), name) if name.isdecimal() else (1, 0, name))


def image_set(files: Sequence[ImageFile], names: Sequence[str], root: Path) -> ImageSet:
    """`files` under the labelling `names`; ids are paths relative to `root`."""
    number = {name: label for label, name in enumerate(names)}
    labels = [UNLABELLED if file.label is None else number[file.label] for file in files]
    boxes = [file.box for file in files] if any(file.box for file in files) else None
    cameras = [file.camera for file in files]
    known = np.array(cameras, dtype=np.int64) if cameras and None not in cameras else None
    prefix = f"{root}{os.sep}"
    paths = [str(file.path) for file in files]
    ids = [path.removeprefix(prefix).replace(os.sep, "/") for path in paths]
    return ImageSet(FilePixels(paths, boxes), labels, names, ids, known)


def retrieval_data(
    name: str,
    root: Path,
    train: Sequence[ImageFile] | None,
    query: Sequence[ImageFile],
    gallery: Sequence[ImageFile],
    protocol: Protocol,
) -> RetrievalData:
    """Query and gallery under one labelling, training images under their own."""
    names = names_of(query, gallery)
    gallery_set = image_set(gallery, names, root)
    return RetrievalData(
        name=name,
        train=None if train is None else image_set(train, names_of(train), root),
        query=gallery_set if query is gallery else image_set(query, names, root),
        gallery=gallery_set,
        protocol=protocol,
    )
