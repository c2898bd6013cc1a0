"""Transforms by the backbone's own data config, through timm."""

from collections.abc import Callable
from typing import Any, Protocol

from PIL import Image
from torch import Tensor

from prunnet._torchvision import require_torchvision
from prunnet.errors import DataError

Transform = Callable[[Image.Image], Tensor]


class Preprocessing(Protocol):
    """What a network expects of its input (`prunnet.network.Preprocessing` is one)."""

    @property
    def input_size(self) -> tuple[int, int, int]: ...
    @property
    def mean(self) -> tuple[float, ...]: ...
    @property
    def std(self) -> tuple[float, ...]: ...
    @property
    def interpolation(self) -> str: ...
    @property
    def crop_pct(self) -> float: ...


def train_transform(
    preprocessing: Preprocessing,
    scale: tuple[float, float] = (0.5, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    hflip: float = 0.5,
    color_jitter: float = 0.0,
    random_erasing: float = 0.0,
) -> Transform:
    """Random crop and flip, then normalisation as `preprocessing` says.

    `scale` and `ratio` bound the area and aspect of the crop; `hflip` and `random_erasing` are probabilities.
    Classification crops down to 8 % of the image; retrieval has to keep the instance recognisable, hence half of it
    by default.
    """
    return _build(
        preprocessing,
        is_training=True,
        scale=scale,
        ratio=ratio,
        hflip=hflip,
        color_jitter=color_jitter or None,
        re_prob=random_erasing,
    )


def eval_transform(preprocessing: Preprocessing) -> Transform:
    """Resize, centre crop and normalisation, the same for every pass."""
    return _build(preprocessing, is_training=False, crop_pct=preprocessing.crop_pct)


def _build(preprocessing: Preprocessing, **options: Any) -> Transform:
    require_torchvision()
    from timm.data import create_transform
    from torchvision.transforms import Compose

    mode = {1: "L", 3: "RGB"}.get(preprocessing.input_size[0])
    if mode is None:
        raise DataError(f"images have 1 or 3 channels, the network expects {preprocessing.input_size[0]}")
    transform = create_transform(
        input_size=tuple(preprocessing.input_size),
        mean=tuple(preprocessing.mean),
        std=tuple(preprocessing.std),
        interpolation=preprocessing.interpolation,
        **options,
    )
    composed: Transform = Compose([ToMode(mode), *transform.transforms])
    return composed


class ToMode:
    """Grey for one channel, RGB for three."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __call__(self, image: Image.Image) -> Image.Image:
        return image if image.mode == self.mode else image.convert(self.mode)

    def __repr__(self) -> str:
        return f"ToMode({self.mode})"
