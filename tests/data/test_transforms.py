import pickle
from dataclasses import dataclass

import pytest
import torch
from PIL import Image

from prunnet.data import eval_transform, train_transform
from prunnet.errors import DataError


@dataclass(frozen=True)
class Config:
    input_size: tuple[int, int, int] = (3, 16, 16)
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    interpolation: str = "bilinear"
    crop_pct: float = 1.0


GREY = Config((1, 16, 16), (0.5,), (0.25,))


@pytest.mark.parametrize("config", [Config(), GREY])
@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize("make", [train_transform, eval_transform])
def test_any_picture_becomes_what_the_network_takes(config, mode, make):
    tensor = make(config)(Image.new(mode, (40, 30)))
    assert tensor.shape == config.input_size and tensor.dtype == torch.float32


def test_values_are_normalised_as_configured():
    tensor = eval_transform(GREY)(Image.new("L", (16, 16), 255))
    torch.testing.assert_close(tensor, torch.full((1, 16, 16), 2.0))


def test_crop_pct_cuts_the_border():
    image = Image.new("L", (16, 16), 255)
    image.paste(0, (2, 2, 14, 14))
    config = Config((1, 8, 8), (0.0,), (1.0,), crop_pct=0.5)
    assert eval_transform(config)(image).max() == 0


def test_flip_and_crop_can_be_turned_off():
    image = Image.linear_gradient("L").rotate(90).resize((16, 16))
    still = train_transform(GREY, scale=(1.0, 1.0), ratio=(1.0, 1.0), hflip=0.0)
    torch.testing.assert_close(still(image), eval_transform(GREY)(image))
    mirrored = train_transform(GREY, scale=(1.0, 1.0), ratio=(1.0, 1.0), hflip=1.0)
    torch.testing.assert_close(mirrored(image), eval_transform(GREY)(image).flip(-1))


def test_erasing_and_jitter_change_pixels():
    image = Image.new("RGB", (16, 16), (200, 100, 50))
    fixed = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0), "hflip": 0.0}
    plain = train_transform(Config(), **fixed)(image)
    assert not torch.equal(train_transform(Config(), **fixed, random_erasing=1.0)(image), plain)
    assert not torch.equal(train_transform(Config(), **fixed, color_jitter=0.4)(image), plain)


def test_transforms_travel_to_worker_processes():
    assert pickle.loads(pickle.dumps(train_transform(Config())))(Image.new("L", (9, 9))).shape == (3, 16, 16)


def test_other_channel_counts_are_refused():
    with pytest.raises(DataError, match="1 or 3 channels, the network expects 4"):
        eval_transform(Config((4, 8, 8)))
