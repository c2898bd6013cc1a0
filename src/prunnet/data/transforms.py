"""Augmentation for training, through timm; what inference sees is `Preprocessing.transform` alone."""

from collections.abc import Callable
from typing import Protocol

from PIL import Image
from torch import Tensor

from prunnet._pictures import ToChannels
from prunnet._torchvision import require_torchvision

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
    def transform(self) -> Transform: ...


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
    to_channels = ToChannels(preprocessing.input_size[0])
    require_torchvision()
    from timm.data import create_transform
    from torchvision.transforms import Compose

    augment_and_normalise = create_transform(
        input_size=tuple(preprocessing.input_size),
        mean=tuple(preprocessing.mean),
        std=tuple(preprocessing.std),
        interpolation=preprocessing.interpolation,
        is_training=True,
        scale=scale,
        ratio=ratio,
        hflip=hflip,
        color_jitter=color_jitter or None,
        re_prob=random_erasing,
    )
    composed: Transform = Compose([to_channels, *augment_and_normalise.transforms])
    return composed
