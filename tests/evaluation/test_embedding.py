from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import prunnet
from prunnet.data import ImageSet
from prunnet.data.images import FilePixels
from prunnet.evaluation import embed_images

RNG = np.random.default_rng(0)
COLOUR = Image.fromarray(RNG.integers(0, 256, (30, 40, 3), dtype=np.uint8))
PICTURES = {
    "grey": COLOUR.convert("L"),
    "RGB": COLOUR,
    "RGBA": Image.fromarray(RNG.integers(0, 256, (30, 40, 4), dtype=np.uint8)),
    "palette": COLOUR.quantize(32),
    "16-bit": Image.fromarray(RNG.integers(0, 65536, (30, 40), dtype=np.uint16)),
}


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_and_its_file_have_one_embedding(kind: str, channels: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Conv2d(channels, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    net = prunnet.convert(backbone, 8, preprocessing=prunnet.Preprocessing((channels, 12, 12), crop_pct=0.875))
    file = tmp_path / "picture.png"
    PICTURES[kind].save(file)
    subnetwork = net.subnetwork(1.0)
    embedded = embed_images(subnetwork, ImageSet(FilePixels([file]), [0], ["a"], ["a"])).vectors
    assert torch.equal(subnetwork.encode(PICTURES[kind]).vectors, embedded)
    with Image.open(file) as opened:
        assert torch.equal(subnetwork.encode(opened).vectors, embedded)
