"""Omniglot: 1,623 characters of 50 alphabets, each drawn by 20 people.

Background alphabets train, evaluation alphabets are retrieved. Drawers 1–5 of every character ask, drawers 6–20 are the
gallery: a query is never answered by the hand that drew it.
"""

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from prunnet.data.glyphs import AUGMENTATION
from prunnet.data.image_files import ImageFile, image_set, names_of
from prunnet.data.images import ImageSet
from prunnet.data.lists import list_images, require_folder
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.errors import DataError

QUERY_DRAWERS = 5
DRAWING = re.compile(r"\d+_(?P<drawer>\d{2})")


def load_omniglot(root: Path, every: Sequence[int] = (1, 1)) -> RetrievalData:
    """`root` is an .npz file or a folder with one, or holds images_background/ and images_evaluation/ as published.

    `every=(7, 4)` keeps every seventh character of the training alphabets and every fourth of those retrieved.
    """
    if len(every) != 2 or not all(isinstance(step, int) and step > 0 for step in every):
        raise DataError(f"omniglot: every takes two whole numbers from 1 on, such as (7, 4); found {every!r}")
    packed = root if root.suffix == ".npz" else next(iter(sorted(root.glob("omniglot*28*.npz"))), None)
    packed = packed or next(iter(sorted(root.glob("omniglot*.npz"))), None)
    sets = _from_arrays(packed) if packed else _from_folders(root)
    train, query, gallery = (_thin(part, step) for part, step in zip(sets, (every[0], every[1], every[1]), strict=True))
    return RetrievalData("omniglot", train, query, gallery, Protocol(metric="mAP"), AUGMENTATION)


def _thin(images: ImageSet, every: int) -> ImageSet:
    """The classes 0, `every`, 2·`every` …, numbered anew."""
    kept = images.take(np.flatnonzero(images.labels % every == 0))
    return ImageSet(kept.pixels, kept.labels // every, kept.label_names[::every], kept.ids)


def _from_arrays(file: Path) -> tuple[ImageSet, ImageSet, ImageSet]:
    """`images` (N × H × W, ink 255) or `bits` (packed rows of 105); `label`, `drawer`, `split`, `class_names`."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            content: dict[str, npt.NDArray[Any]] = {name: stored[name] for name in stored.files}
        labels, drawer, split = (content[name].astype(np.int64) for name in ("label", "drawer", "split"))
        names = [str(name) for name in content["class_names"]]
        images = content["images"] if "images" in content else np.unpackbits(content["bits"], axis=2)[:, :, :105] * 255
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{file}: not Omniglot as .npz ({error})") from None

    def part(members: npt.NDArray[np.bool_], known: npt.NDArray[np.int64]) -> ImageSet:
        ids = [f"{names[label]}/{number:02d}" for label, number in zip(labels[members], drawer[members], strict=True)]
        dense = np.searchsorted(known, labels[members])
        return ImageSet.from_arrays(images[members], dense, [names[label] for label in known], ids)

    trained, tested = np.unique(labels[split == 0]), np.unique(labels[split == 1])
    asks = drawer <= QUERY_DRAWERS
    return part(split == 0, trained), part((split == 1) & asks, tested), part((split == 1) & ~asks, tested)


def _from_folders(root: Path) -> tuple[ImageSet, ImageSet, ImageSet]:
    """images_*/Alphabet/characterNN/NNNN_DD.png, where DD is the drawer. Ink is black there; left so."""

    def read(name: str) -> list[tuple[int, ImageFile]]:
        drawings = []
        folder = require_folder(root / name, "omniglot")
        for character in sorted(folder.glob("*/character*")):
            for path in list_images(character):
                match = DRAWING.match(path.name)
                if match is None:
                    raise DataError(f"{path}: expected a name like 0001_01.png, character and drawer")
                label = f"{character.parent.name}/{character.name}"
                drawings.append((int(match["drawer"]), ImageFile(path, label)))
        if not drawings:
            raise DataError(f"{folder}: holds no Alphabet/characterNN/*.png")
        return drawings

    train = [image_file for _, image_file in read("images_background")]
    test = read("images_evaluation")
    query = [image_file for drawer, image_file in test if drawer <= QUERY_DRAWERS]
    gallery = [image_file for drawer, image_file in test if drawer > QUERY_DRAWERS]
    names = names_of(query, gallery)
    return image_set(train, names_of(train), root), image_set(query, names, root), image_set(gallery, names, root)
