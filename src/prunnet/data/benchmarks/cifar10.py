"""CIFAR-10, as its binary version or its Python version."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from prunnet.data.benchmarks.plain_pickle import read_plain_pickle
from prunnet.data.images import ImageSet
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.errors import DataError

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32

Part = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def load_cifar10(root: Path) -> RetrievalData:
    """Five training batches; the test batch is query and gallery at once.

    `root` is, or holds, cifar-10-batches-bin/ or cifar-10-batches-py/.
    """
    for version, read, suffix in (("bin", _read_binary, ".bin"), ("py", _read_python, "")):
        for folder in (root, root / f"cifar-10-batches-{version}"):
            if (folder / f"test_batch{suffix}").is_file():
                train = _join([read(folder / f"data_batch_{number}{suffix}") for number in range(1, 6)], "train")
                test = _join([read(folder / f"test_batch{suffix}")], "test")
                return RetrievalData("cifar10", train, test, test, Protocol(metric="mAP", same_set=True))
    raise DataError(f"{root}: no test_batch.bin or test_batch there; `prunnet data list` shows what cifar10 needs")


def _join(parts: list[Part], name: str) -> ImageSet:
    pixels = np.concatenate([images for images, _ in parts]).reshape(-1, 3, 32, 32)
    labels = np.concatenate([labels for _, labels in parts])
    ids = [f"{name}/{number:05d}" for number in range(len(labels))]
    return ImageSet.from_arrays(np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), labels, NAMES, ids)


def _read_binary(file: Path) -> Part:
    if not file.is_file():
        raise DataError(f"{file}: no such file; `prunnet data list` shows what cifar10 needs")
    raw = np.fromfile(file, dtype=np.uint8)
    if not len(raw) or len(raw) % (PIXELS + 1):
        raise DataError(f"{file}: {len(raw)} bytes are no whole number of {PIXELS + 1}-byte images")
    rows = raw.reshape(-1, PIXELS + 1)
    return _checked(file, rows[:, 1:], rows[:, 0])


def _read_python(file: Path) -> Part:
    content = read_plain_pickle(file)
    try:
        return _checked(file, content["data"], np.asarray(content["labels"]))
    except (KeyError, TypeError):
        raise DataError(f"{file}: holds no data and labels of CIFAR-10") from None


def _checked(file: Path, pixels: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8]) -> Part:
    if pixels.dtype != np.uint8 or pixels.ndim != 2 or pixels.shape[1] != PIXELS or len(labels) != len(pixels):
        raise DataError(
            f"{file}: holds {pixels.dtype} {pixels.shape} with {len(labels)} labels, not images of CIFAR-10"
        )
    if len(labels) and labels.max() >= len(NAMES):
        raise DataError(f"{file}: image {int(labels.argmax()) + 1} has label {labels.max()}, but there are ten classes")
    return pixels, labels.astype(np.int64)
