"""Sensitivities of layers: the definition read slowly, what small members keep, what measuring leaves as it was."""

import copy

import pytest
import torch
import torch.nn.functional as F
from tests.networks import fresh, make
from torch import nn

import prunnet
from prunnet.network.sensitivity import KEPT, PIXELS, measured_sensitivities


def measured(net: prunnet.PrunableNetwork) -> dict[str, float]:
    return measured_sensitivities(net.backbone, net.weights, net.preprocessing.input_size)


def slowly(net: prunnet.PrunableNetwork, name: str) -> float:
    """√((1 − cosine) / n), with the smallest weights of a copy overwritten by zeros."""
    channels, height, width = net.preprocessing.input_size
    count = max(2, PIXELS // (height * width))
    images = torch.randn(count, channels, height, width, generator=torch.Generator().manual_seed(0))
    features = []
    for backbone in (copy.deepcopy(net.backbone), copy.deepcopy(net.backbone)):
        backbone.eval()
        for module in backbone.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.train()
        if features:
            weight = backbone.get_parameter(name).data.view(-1)
            weight[weight.abs().argsort()[: weight.numel() - round(KEPT * weight.numel())]] = 0
        with torch.no_grad():
            features.append(backbone(images))
    cosine = F.cosine_similarity(features[0].double(), features[1].double()).mean()
    return float(((1 - cosine) / net.weights[name].numel()).sqrt())


@pytest.mark.parametrize(
    ("name", "layer"), [("hand_written", "depthwise.weight"), ("mobilenetv2_100", "conv_stem.weight")]
)
def test_it_is_how_far_features_turn_for_each_connection_that_a_layer_has(name, layer) -> None:
    assert measured(make(name))[layer] == pytest.approx(slowly(make(name), layer), rel=0.01)


@pytest.mark.parametrize("name", ["torchvision_vit", "hand_written"])
def test_every_layer_has_one_and_the_network_stays_as_it_was(name) -> None:
    net = fresh(name).train()
    before = {key: tensor.clone() for key, tensor in net.state_dict().items()}
    first, second = measured(net), measured(net)
    assert first == second and list(first) == list(net.scores) and all(value > 0 for value in first.values())
    assert all(module.training for module in net.modules())
    assert all(torch.equal(tensor, before[key]) for key, tensor in net.state_dict().items())


class TwoBranches(nn.Module):
    """Two alike, of which one is heard a thousand times louder."""

    def __init__(self) -> None:
        super().__init__()
        self.loud, self.quiet = nn.Linear(48, 32), nn.Linear(48, 32)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.loud(images.flatten(1)) + 1e-3 * self.quiet(images.flatten(1))


def test_small_members_keep_what_features_depend_on(tmp_path) -> None:
    torch.manual_seed(0)
    preprocessing = prunnet.Preprocessing((3, 4, 4))
    net = prunnet.convert(TwoBranches(), 8, preprocessing=preprocessing, score_start="magnitude")
    assert net.selection.allocation.name == "measured"
    kept = {name: float(mask.float().mean()) for name, mask in net.masks(0.3).items()}
    assert kept["loud.weight"] > 0.59 and kept["quiet.weight"] < 0.01
    again = prunnet.load(net.save(tmp_path), backbone=TwoBranches())
    assert all(torch.equal(mask, again.masks(0.3)[name]) for name, mask in net.masks(0.3).items())
