"""What the loader costs beyond decoding and transforming: sampler, seeds, records, collation.

Both sides read the same JPEG files in one process, in turns, so that the machine's mood hits them alike.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import prunnet
from prunnet._timing import medians
from prunnet.data import ImageSet, ShuffledSampler, make_loader, train_transform
from prunnet.data.images import FilePixels

IMAGES, BATCH, SIDE, ROUNDS = 256, 32, 256, 15
PREPROCESSING = prunnet.Preprocessing((3, 224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), crop_pct=0.875)


def photographs(folder: Path) -> ImageSet:
    """JPEG files of the size that In-shop and re-identification crops have, with some detail in them."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(IMAGES)]
    for path in paths:
        coarse = Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8))
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path, quality=90)
    return ImageSet(FilePixels(paths), np.zeros(IMAGES, np.int64), ["a"], [path.name for path in paths])


def main() -> None:
    torch.set_num_threads(1)
    transform = train_transform(PREPROCESSING)
    with tempfile.TemporaryDirectory() as folder:
        images = photographs(Path(folder))
        paths = [Path(folder) / name for name in images.ids]

        def bare() -> None:
            for start in range(0, IMAGES, BATCH):
                torch.stack([transform(Image.open(path).convert("RGB")) for path in paths[start : start + BATCH]])

        def loader(source: ImageSet) -> Callable[[], None]:
            def run() -> None:
                for _ in make_loader(source, transform, sampler=ShuffledSampler(IMAGES, BATCH)):
                    pass

            return run

        seconds = medians({"bare": bare, "loader": loader(images), "cached": loader(images.cached())}, ROUNDS)
    print(f"bare decode + transform: {IMAGES / seconds['bare']:.0f} images/s in one process")
    print(f"cached_loading_ratio: {seconds['cached'] / seconds['bare']:.3f}")
    print(f"loading_overhead: {seconds['loader'] / seconds['bare'] - 1:.3f}")


if __name__ == "__main__":
    main()
