"""Your own images, a folder per class.

    root/{train,query,gallery}/<class>/…    the split is yours; train may be missing
    root/{train,test}/<class>/…             every test image asks all others
    root/<class>/…                          a quarter of the classes is held out; its images ask all others

Without a split of yours the held-out classes follow from their names and `seed`, so adding images never moves a class.
Classes of a single image cannot be retrieved and therefore train.
"""

import hashlib
from pathlib import Path

from prunnet.data.image_files import ImageFile, retrieval_data
from prunnet.data.lists import is_image
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.errors import DataError


def load_folder(root: Path, metric: str = "mAP", test_share: float = 0.25, seed: int = 0) -> RetrievalData:
    """Images under `root`, by the rules above; class folders may have folders inside them."""
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    if not 0 < test_share < 1:
        raise DataError(f"test_share must lie between 0 and 1, not {test_share}")
    parts = {part: root / part for part in ("train", "query", "gallery", "test") if (root / part).is_dir()}
    train = _classes(parts["train"]) if "train" in parts else None
    if "query" in parts and "gallery" in parts:
        query, gallery = _classes(parts["query"]), _classes(parts["gallery"])
        return retrieval_data(root.name, root, train, query, gallery, Protocol(metric=metric))
    if "test" in parts:
        test = _classes(parts["test"])
    elif parts:
        raise DataError(f"{root}: has {', '.join(parts)}; a split needs train and test, or query and gallery")
    else:
        train, test = _split(_classes(root), root, test_share, seed)
    return retrieval_data(root.name, root, train, test, test, Protocol(metric=metric, same_set=True))


def _classes(folder: Path) -> list[ImageFile]:
    files = [
        ImageFile(path, path.relative_to(folder).parts[0])
        for path in sorted(folder.rglob("*"))
        if is_image(path) and len(path.relative_to(folder).parts) > 1
    ]
    if not files:
        raise DataError(f"{folder}: holds no images in a folder per class")
    return files


def _split(files: list[ImageFile], root: Path, test_share: float, seed: int) -> tuple[list[ImageFile], list[ImageFile]]:
    sizes: dict[str | None, int] = {}
    for file in files:
        sizes[file.label] = sizes.get(file.label, 0) + 1
    retrievable = [label for label, size in sizes.items() if size > 1]
    if len(retrievable) < 4:
        raise DataError(
            f"{root}: {len(retrievable)} classes with two images or more are too few to hold some out; "
            "make train/ and test/ folders, or use a manifest"
        )
    retrievable.sort(key=lambda label: hashlib.sha256(f"{seed}/{label}".encode()).digest())
    held_out = set(retrievable[: max(2, round(test_share * len(retrievable)))])
    train = [file for file in files if file.label not in held_out]
    return train, [file for file in files if file.label in held_out]
