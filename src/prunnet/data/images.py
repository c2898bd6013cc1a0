"""An indexed collection of labelled images, on disk or in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from prunnet._pictures import read_picture
from prunnet._progress import track
from prunnet.errors import DataError, UnreadableImageError

Box = tuple[float, float, float, float]
"""Left, upper, right, lower, in pixels of the upright image, as `PIL.Image.crop` takes it."""

UNLABELLED = -1
"""The label of an image that is known to belong to no class."""


class Pixels(Protocol):
    """Where the images of an `ImageSet` come from."""

    def __len__(self) -> int: ...
    def open(self, index: int) -> Image.Image: ...
    def take(self, indices: npt.NDArray[np.int64]) -> "Pixels": ...


class FilePixels:
    """Image files, opened when asked for, turned upright, then cropped to their box, and converted to RGB."""

    def __init__(self, paths: Sequence[Path | str], boxes: Sequence[Box | None] | None = None) -> None:
        self.paths = [str(path) for path in paths]
        self.boxes = None if boxes is None else list(boxes)

    def __len__(self) -> int:
        return len(self.paths)

    def open(self, index: int) -> Image.Image:
        path, box = self.paths[index], self.boxes[index] if self.boxes else None
        image = read_picture(path)
        if box:
            try:
                image = image.crop(clip_box(box, image.size))
            except ValueError as error:
                raise UnreadableImageError(f"{path}: {error}") from None
        return image if image.mode == "RGB" else image.convert("RGB")

    def take(self, indices: npt.NDArray[np.int64]) -> "FilePixels":
        boxes = self.boxes
        return FilePixels([self.paths[i] for i in indices], None if boxes is None else [boxes[i] for i in indices])


class ArrayPixels:
    """Images decoded already: uint8, height × width (grey) or height × width × 3 (RGB), not necessarily of one size."""

    def __init__(self, arrays: npt.NDArray[np.uint8] | Sequence[npt.NDArray[np.uint8]]) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(self.arrays)

    def open(self, index: int) -> Image.Image:
        return Image.fromarray(self.arrays[index])

    def take(self, indices: npt.NDArray[np.int64]) -> "ArrayPixels":
        if isinstance(self.arrays, np.ndarray):
            return ArrayPixels(self.arrays[indices])
        return ArrayPixels([self.arrays[i] for i in indices])


class CachedPixels:
    """Images decoded once, up front, so that worker processes share them; what is over the limit is read as before."""

    def __init__(self, source: Pixels, limit_bytes: int) -> None:
        self.source = source
        self.decoded: dict[int, npt.NDArray[np.uint8]] = {}
        used = 0
        for index in track(range(len(source)), "decoding images"):
            try:
                array = np.asarray(source.open(index))
            except UnreadableImageError:
                continue  # whoever asks for this image gets the error
            used += array.nbytes
            if used > limit_bytes:
                break
            self.decoded[index] = array

    def __len__(self) -> int:
        return len(self.source)

    def open(self, index: int) -> Image.Image:
        array = self.decoded.get(int(index))
        return self.source.open(index) if array is None else Image.fromarray(array)

    def take(self, indices: npt.NDArray[np.int64]) -> Pixels:
        return self.source.take(indices)


class ImageSet:
    """Labelled images by index: `labels[i]`, `ids[i]`, `cameras[i]` (if known), and `image(i)`, which is opened lazily.

    Labels are 0 … classes−1, names in `label_names`; `UNLABELLED` marks an image of no class.
    """

    def __init__(
        self,
        pixels: Pixels,
        labels: Sequence[int] | npt.NDArray[Any],
        label_names: Sequence[str],
        ids: Sequence[str],
        cameras: Sequence[int] | npt.NDArray[Any] | None = None,
    ) -> None:
        self.pixels = pixels
        self.labels: npt.NDArray[np.int64] = np.asarray(labels, dtype=np.int64)
        self.label_names = list(label_names)
        self.ids = list(ids)
        self.cameras: npt.NDArray[np.int64] | None = None if cameras is None else np.asarray(cameras, dtype=np.int64)
        counts = {len(part) for part in (pixels, self.labels, self.ids, self.cameras) if part is not None}
        if len(counts) > 1:
            raise DataError(f"images, labels, ids and cameras differ in number: {sorted(counts)}")
        if len(self.labels) and not UNLABELLED <= self.labels.min() <= self.labels.max() < len(self.label_names):
            raise DataError(f"labels must lie in 0 … {len(self.label_names) - 1}, or be {UNLABELLED} for no class")

    @classmethod
    def from_arrays(
        cls,
        arrays: npt.NDArray[np.uint8],
        labels: Sequence[int] | npt.NDArray[Any],
        label_names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
    ) -> "ImageSet":
        """Images held in one uint8 array: N × H × W, or N × H × W × 3."""
        if arrays.dtype != np.uint8 or arrays.ndim not in (3, 4) or (arrays.ndim == 4 and arrays.shape[-1] != 3):
            raise DataError(f"images must be uint8, N×H×W or N×H×W×3, not {arrays.dtype} {arrays.shape}")
        labels = np.asarray(labels)
        names = label_names if label_names is not None else [str(i) for i in range(int(labels.max(initial=-1)) + 1)]
        return cls(ArrayPixels(arrays), labels, names, ids if ids is not None else [str(i) for i in range(len(arrays))])

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"ImageSet({len(self)} images, {self.classes} classes)"

    @property
    def classes(self) -> int:
        """How many classes the labels distinguish."""
        return len(self.label_names)

    def image(self, index: int) -> Image.Image:
        """The image at `index`, cropped to its box."""
        return self.pixels.open(index)

    def path(self, index: int) -> Path | None:
        """The file of the image at `index`, if it has one."""
        return Path(self.pixels.paths[index]) if isinstance(self.pixels, FilePixels) else None

    def read_all(self, description: str) -> None:
        """Read every image once, and so raise an `UnreadableImageError` now rather than when one is needed."""
        for index in track(range(len(self)), description):
            self.image(index)

    def take(self, indices: Sequence[int] | npt.NDArray[Any]) -> "ImageSet":
        """The images at `indices`, under the same labels."""
        places = np.asarray(indices, dtype=np.int64)
        cameras = None if self.cameras is None else self.cameras[places]
        ids = [self.ids[i] for i in places]
        return ImageSet(self.pixels.take(places), self.labels[places], self.label_names, ids, cameras)

    def cached(self, limit_bytes: int = 2 * 1024**3) -> "ImageSet":
        """The same images, decoded now and kept in memory as far as `limit_bytes` allow."""
        if isinstance(self.pixels, ArrayPixels):
            return self
        pixels = CachedPixels(self.pixels, limit_bytes)
        return ImageSet(pixels, self.labels, self.label_names, self.ids, self.cameras)


def clip_box(box: Box, size: tuple[int, int]) -> Box:
    """`box` within an image of `size`; crop would pad with black instead."""
    left, upper = max(box[0], 0.0), max(box[1], 0.0)
    right, lower = min(box[2], float(size[0])), min(box[3], float(size[1]))
    if left >= right or upper >= lower:
        raise ValueError(f"box {box} lies outside the {size[0]}×{size[1]} image")
    return left, upper, right, lower
