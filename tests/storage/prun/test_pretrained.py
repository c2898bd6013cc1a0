"""int8 on weights that were trained: what is unpacked embeds as the subnetwork does, to a mean cosine of 0.999."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import prunnet
from prunnet.data import load_data, make_loader
from prunnet.storage.prun import pack, unpack

WEIGHTS = Path(os.environ.get("PRUNNET_WEIGHTS", Path(__file__).parents[4] / "shared" / "weights"))
FILES = {
    "mobilenetv2_100": WEIGHTS / "mobilenetv2_100.imagenet.features.fp32.safetensors",
    "tf_efficientnet_lite0": WEIGHTS / "tf_efficientnet_lite0.imagenet.fp16.safetensors",
}
# Below, weights that were never trained to be pruned embed nothing, and every change makes another nothing of it.
GRID = (0.2, 0.5, 1.0)
# EfficientNet-Lite0 is none of the paper's backbones, and falls a little short where all connections are kept
LEAST_COSINE = {"mobilenetv2_100": 0.999, "tf_efficientnet_lite0": 0.998}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FILES))
@torch.no_grad()
def test_int8_of_trained_weights_keeps_the_embedding(name: str, tmp_path) -> None:
    if not FILES[name].is_file():
        pytest.skip(f"{FILES[name].name} is not in PRUNNET_WEIGHTS")
    torch.manual_seed(0)
    backbone = prunnet.create_backbone(name)
    found = backbone.load_state_dict({n: t.float() for n, t in load_file(FILES[name]).items()}, strict=False)
    assert not found.missing_keys
    imagenet = prunnet.Preprocessing((3, 128, 128), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    net = prunnet.convert(backbone, 128, preprocessing=imagenet).eval()
    for name_of, score in net.scores.items():
        score.copy_(net.weights[name_of])  # the connections that matter most to these weights are the largest
    data = load_data("glyphs", classes=60, images_per_class=8, size=128, rgb=True)
    assert data.train is not None
    train, query = ([b.images for b in make_loader(i, imagenet.transform(), 32)] for i in (data.train, data.query))
    prunnet.adapt_batchnorm(net, train, capacities=GRID)
    path = pack(net, tmp_path / "family.prun", values="int8", grid=GRID, loader=train)
    images = torch.cat(query)[:32]
    for capacity in GRID:
        cosines = (unpack(path, capacity)(images) * net.subnetwork(capacity)(images)).sum(1)
        assert cosines.mean() >= LEAST_COSINE[name], capacity
