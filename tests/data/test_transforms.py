import pickle

import pytest
import torch
from PIL import Image

from prunnet.data import train_transform
from prunnet.errors import ImageError
from prunnet.network import Preprocessing

COLOUR, GREY = Preprocessing((3, 16, 16)), Preprocessing((1, 16, 16), (0.5,), (0.25,))


@pytest.mark.parametrize("config", [COLOUR, GREY])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_any_picture_becomes_what_the_network_takes(config, mode):
    tensor = train_transform(config)(Image.new(mode, (40, 30)))
    assert tensor.shape == config.input_size and tensor.dtype == torch.float32


def test_flip_and_crop_can_be_turned_off():
    image = Image.linear_gradient("L").rotate(90).resize((16, 16))
    still = train_transform(GREY, scale=(1.0, 1.0), ratio=(1.0, 1.0), hflip=0.0)
    torch.testing.assert_close(still(image), GREY.transform()(image))
    mirrored = train_transform(GREY, scale=(1.0, 1.0), ratio=(1.0, 1.0), hflip=1.0)
    torch.testing.assert_close(mirrored(image), GREY.transform()(image).flip(-1))


def test_erasing_and_jitter_change_pixels():
    image = Image.new("RGB", (16, 16), (200, 100, 50))
    fixed = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0), "hflip": 0.0}
    plain = train_transform(COLOUR, **fixed)(image)
    assert not torch.equal(train_transform(COLOUR, **fixed, random_erasing=1.0)(image), plain)
    assert not torch.equal(train_transform(COLOUR, **fixed, color_jitter=0.4)(image), plain)


def test_transforms_travel_to_worker_processes():
    assert pickle.loads(pickle.dumps(train_transform(COLOUR)))(Image.new("L", (9, 9))).shape == (3, 16, 16)


def test_other_channel_counts_are_refused():
    with pytest.raises(ImageError, match="1 or 3 channels, the network expects 4"):
        train_transform(Preprocessing((4, 8, 8)))
