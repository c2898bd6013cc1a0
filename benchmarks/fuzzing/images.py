"""Image files of a data set: whatever is in them, an image or one line."""

import io
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from fuzzing.mutations import damaged, pickled
from prunnet.data.images import FilePixels

_FORMATS = {"png": {}, "jpeg": {"quality": 90}, "webp": {}, "bmp": {}, "tiff": {}, "gif": {}, "ppm": {}}


class Images:
    name = "images"
    megabytes = 1024  # a picture may have as many pixels as it says, up to Pillow's limit

    def __init__(self, canary: Path) -> None:
        self._canary, self._file = canary, canary.parent / "image"
        noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        picture = Image.fromarray(noise).resize((48, 40), Image.Resampling.BICUBIC)
        self._files = []
        for name, options in _FORMATS.items():
            for mode in ("RGB", "L", "P", "1", "RGBA") if name in ("png", "tiff") else ("RGB",):
                content = io.BytesIO()
                picture.convert(mode).save(content, name, **options)
                self._files.append(content.getvalue())

    def attempt(self, rng: Random) -> str:
        mutant = damaged(rng.choice(self._files), rng)
        if rng.random() < 0.01:
            mutant = pickled(self._canary)
        self._file.write_bytes(mutant)
        pixels = FilePixels([self._file], [(1.0, 2.0, 20.0, 10.0) if rng.random() < 0.2 else None])
        return f"opened as {pixels.open(0).mode}"
