"""Images to adapt batch norm and to calibrate int8 on: shuffled training images, preprocessed as for inference."""

from pathlib import Path

from prunnet.data import DataError, Loader, load, shuffled_loader
from prunnet.network import Preprocessing


def training_images(data: str, root: Path | None, preprocessing: Preprocessing, batch_size: int = 64) -> Loader:
    """Batches of the training images of `data` (a manifest, a folder per class, or the name of a data set)."""
    images = load(data, root).train
    if images is None:
        raise DataError(f"{data} has no training images")
    return shuffled_loader(images, preprocessing, batch_size)
