"""From pictures to what a network takes: one description that travels with every subnetwork and file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from prunnet._pictures import ToChannels
from prunnet._torchvision import require_torchvision
from prunnet.errors import ImageError, ModuleError

Picture = Image.Image | np.ndarray[Any, Any] | Tensor
Transform = Callable[[Image.Image], Tensor]


@dataclass(frozen=True)
class Preprocessing:
    """Shorter side to `input_size / crop_pct`, centre crop, values to [0, 1], minus `mean`, over `std`.

    Without `mean` and `std` both are 0.5 in every channel.
    """

    input_size: tuple[int, int, int] = (3, 224, 224)
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    interpolation: str = "bilinear"
    crop_pct: float = 1.0

    def __post_init__(self) -> None:
        if len(self.input_size) != 3 or any(side < 1 for side in self.input_size):
            raise ImageError(f"input_size must be (channels, height, width), all at least 1; found {self.input_size}")
        channels = self.input_size[0]
        for name in ("mean", "std"):
            values = tuple(float(value) for value in getattr(self, name)) or (0.5,) * channels
            if len(values) != channels:
                raise ImageError(f"{name} has {len(values)} values for {channels} channels of input_size")
            object.__setattr__(self, name, values)
        object.__setattr__(self, "input_size", tuple(int(side) for side in self.input_size))

    @classmethod
    def of(cls, backbone: nn.Module) -> "Preprocessing":
        """What `backbone` was made for: timm's data config, or 224 pixels and its first convolution's channels."""
        first = next((m for m in backbone.modules() if isinstance(m, nn.Conv2d | nn.Linear)), None)
        if not hasattr(backbone, "pretrained_cfg"):
            if not isinstance(first, nn.Conv2d):
                raise ModuleError(
                    f"the image size of {type(backbone).__name__} is not known; "
                    "pass preprocessing=prunnet.Preprocessing(input_size=(channels, height, width))"
                )
            return cls((first.in_channels, 224, 224))
        require_torchvision()
        from timm.data import resolve_data_config

        config: Mapping[str, Any] = resolve_data_config({}, model=backbone)
        channels, height, width = config["input_size"]
        mean, std = config["mean"], config["std"]
        if isinstance(first, nn.Conv2d) and first.in_channels != channels:  # created with in_chans=
            channels = first.in_channels
            mean, std = (float(np.mean(mean)),) * channels, (float(np.mean(std)),) * channels
        return cls((channels, height, width), mean, std, config["interpolation"], config["crop_pct"])

    def transform(self) -> Transform:
        """What every picture goes through before inference: PIL image → normalised tensor `[C, H, W]`, by timm."""
        to_channels = ToChannels(self.input_size[0])
        require_torchvision()
        from timm.data import create_transform
        from torchvision.transforms import Compose

        resize_and_normalise = create_transform(
            self.input_size,
            interpolation=self.interpolation,
            mean=self.mean,
            std=self.std,
            crop_pct=self.crop_pct,
        )
        composed: Transform = Compose([to_channels, *resize_and_normalise.transforms])
        return composed

    def batch(self, pictures: Sequence[Picture] | Picture) -> Tensor:
        """PIL images, arrays `[H, W(, C)]` or uint8 tensors `[C, H, W]` → one normalised tensor `[N, C, H, W]`.

        Float tensors are taken as already preprocessed.
        """
        if isinstance(pictures, Tensor) and pictures.ndim == 4 and pictures.is_floating_point():
            return check_images(pictures, self)
        transform = cache(self.transform)  # tensors need none
        images = [
            picture if isinstance(picture, Tensor) and picture.is_floating_point() else transform()(to_pil(picture))
            for picture in one_by_one(pictures)
        ]
        if not images:
            raise ImageError("no images were given")
        return check_images(torch.stack(images).contiguous(memory_format=torch.channels_last), self)

    def batches(self, pictures: Sequence[Picture] | Picture, batch_size: int) -> Iterator[Tensor]:
        """What `batch` takes, `batch_size` at a time; no pictures at all are refused."""
        stacked = isinstance(pictures, Tensor) and pictures.ndim == 4
        images: Any = pictures if stacked else list(one_by_one(pictures))
        for start in range(0, max(1, len(images)), batch_size):
            yield self.batch(images[start : start + batch_size])


def one_by_one(pictures: Sequence[Picture] | Picture) -> Iterable[Picture]:
    """Iterate over one picture, a stack of pictures or a sequence of them alike."""
    if isinstance(pictures, Image.Image):
        return [pictures]
    if isinstance(pictures, np.ndarray):
        single = pictures.ndim == 2 or (pictures.ndim == 3 and pictures.shape[-1] in (1, 3, 4))
        return [pictures] if single else list(pictures)
    if isinstance(pictures, Tensor):
        return [pictures] if pictures.ndim == 3 else list(pictures)
    return pictures


def to_pil(picture: Picture) -> Image.Image:
    """Any picture as a PIL image."""
    if isinstance(picture, Tensor):
        if picture.dtype != torch.uint8 or picture.ndim != 3:
            raise ImageError(
                "an image tensor must be uint8 [C, H, W], or float and already preprocessed; "
                f"found {picture.dtype} of shape {tuple(picture.shape)}"
            )
        picture = picture.permute(1, 2, 0).cpu().numpy()
    if isinstance(picture, np.ndarray):
        picture = _array_to_pil(picture)
    if not isinstance(picture, Image.Image):
        raise ImageError(f"an image must be a PIL image, an array or a tensor; found {type(picture).__name__}")
    return picture


def _array_to_pil(array: np.ndarray[Any, Any]) -> Image.Image:
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[-1] not in (3, 4)):
        raise ImageError(
            f"an image array must be [H, W] or [H, W, C] with 1, 3 or 4 channels; found shape {array.shape}"
        )
    if np.issubdtype(array.dtype, np.floating):
        if not (np.isfinite(array).all() and array.min() >= 0.0 and array.max() <= 1.0):
            raise ImageError("a float image array must hold values in [0, 1]")
        array = np.rint(array * 255).astype(np.uint8)
    if array.dtype != np.uint8:
        raise ImageError(f"an image array must be uint8, or float in [0, 1]; found {array.dtype}")
    return Image.fromarray(array)


def check_images(images: Tensor, preprocessing: Preprocessing) -> Tensor:
    """Return `images` if they are a batch the network can take, or say what is wrong with their shape."""
    channels = preprocessing.input_size[0]
    if images.ndim != 4 or images.shape[1] != channels:
        raise ImageError(
            f"images must be a batch [N, {channels}, H, W]; found shape {tuple(images.shape)} "
            f"(this network was made for {preprocessing.input_size})"
        )
    return images
