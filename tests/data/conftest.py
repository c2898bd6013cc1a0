"""Small real image files, each with pixels of its own."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Draw = Callable[..., Path]


@pytest.fixture
def draw() -> Draw:
    """Writes an image file (its suffix tells the format) and the folders above it."""
    numbers = count()

    def write(path: Path, size: tuple[int, int] = (12, 10)) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(next(numbers)).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        return path

    return write


@pytest.fixture
def write() -> Callable[[Path, str], Path]:
    """Writes a text file and the folders above it."""

    def to(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return to
