"""Removing filters equals masking them, keeps the family's head, and is nested; shapes survive as JSON."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coupled import BACKBONES, Branches, make_network, random_images
from torch import nn

import prunnet
from prunnet.errors import CapacityError, MissingExtraError, ModuleError
from prunnet.structured import structure_of
from prunnet.structured.removal import masked, removed, structured_subnetwork
from prunnet.structured.shapes import resize, shape_spec
from prunnet.structured.structure import Kept, Structure

IMAGES = random_images(3)


def embed(subnetwork: prunnet.Subnetwork, images: torch.Tensor = IMAGES) -> torch.Tensor:
    subnetwork.adapted = True
    with torch.no_grad():
        return subnetwork(images)


def backbone_parameters(network: prunnet.PrunableNetwork | prunnet.Subnetwork) -> int:
    return sum(parameter.numel() for parameter in network.backbone.parameters())


def kept(net: prunnet.PrunableNetwork, width: float) -> Kept:
    structure = structure_of(net)
    return structure.kept(width, structure.rank(dict(net.scores.items()), net.ranking))


def halved(net: prunnet.PrunableNetwork) -> prunnet.Subnetwork:
    return removed(net, structure_of(net), 0.5)


@pytest.mark.parametrize("name", BACKBONES)
def test_removed_equals_masked(name: str) -> None:
    net = make_network(name)
    for width in (0.25, 0.5, 0.75):
        smaller = removed(net, structure_of(net), width)
        torch.testing.assert_close(embed(smaller), embed(masked(net, structure_of(net), width)), rtol=0, atol=1e-5)
        left = sum(structure_of(net).parameters(width).values())
        assert backbone_parameters(smaller) == left < backbone_parameters(net)
        counted = {key: int(mask.sum()) for key, mask in kept(net, width).items()}
        spec = structure_of(net).shapes(width)
        assert all(spec[layer][side == "in"] == count for (layer, side), count in counted.items())
    assert (embed(removed(net, structure_of(net), 0.25)) - embed(net.subnetwork(1.0))).abs().max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "mobilenetv2_100", "resnext50_32x4d", "vit_small_patch16_224"]
)
def test_removed_equals_masked_at_full_size(name: str) -> None:
    torch.manual_seed(0)
    net = prunnet.convert(prunnet.create_backbone(name)).eval()
    images = torch.randn(2, *net.preprocessing.input_size)
    prunnet.adapt_batchnorm(net, [images], capacities=(1.0,))
    for layer in net.backbone.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.bias, -0.5, 0.5)
    for capacity in (0.6, 0.36, 0.2):
        width = structure_of(net).width_for(capacity)
        found, expected = (
            embed(removed(net, structure_of(net), width), images),
            embed(masked(net, structure_of(net), width), images),
        )
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", BACKBONES)
def test_everything_is_kept_at_one(name: str) -> None:
    net = make_network(name)
    subnetwork = structured_subnetwork(net, 1.0)
    assert subnetwork.adapted
    torch.testing.assert_close(embed(subnetwork), embed(net.subnetwork(1.0)))


def test_capacity_bounds_the_share_of_parameters() -> None:
    net = make_network("resnet18")
    previous = 1.0
    for capacity in (0.8, 0.5, 0.36, 0.2):
        subnetwork = structured_subnetwork(net, capacity)
        share = backbone_parameters(subnetwork) / backbone_parameters(net)
        assert 0.5 * capacity < share <= min(capacity, previous)
        assert subnetwork.capacity == pytest.approx(share)
        previous = share
    with pytest.raises(CapacityError, match="the narrowest has"):
        structured_subnetwork(net, 0.001)


def test_head_and_features_stay_those_of_the_family() -> None:
    net = make_network("resnet18")
    subnetwork = structured_subnetwork(net, 0.4)
    assert subnetwork.family_id == net.family_id
    assert not subnetwork.adapted
    for name, tensor in net.head.state_dict().items():
        assert torch.equal(subnetwork.head.state_dict()[name], tensor)


@settings(max_examples=20, deadline=None)
@given(widths=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_nested(widths: tuple[float, float]) -> None:
    smaller, larger = (kept(MOBILENET, width) for width in sorted(widths))
    for key, mask in smaller.items():
        assert not (mask & ~larger[key]).any()
        assert mask.any()


MOBILENET = make_network("mobilenetv2")


def test_filters_with_the_lowest_mean_score_go_first() -> None:
    net = make_network("branches")
    with torch.no_grad():
        net.scores["hidden.weight"].uniform_(1, 2)
        net.scores["hidden.weight"][5:13] *= -0.1
    filters = kept(net, 0.8)["hidden", "out"]  # 40 filters, 8 go
    assert filters.logical_not().nonzero().flatten().tolist() == list(range(5, 13))


def test_coupled_filters_are_scored_together() -> None:
    net = make_network("branches")
    with torch.no_grad():
        for layer in ("stem", "depthwise"):
            net.scores[f"{layer}.weight"].fill_(1.0)
        net.scores["stem.weight"][3] = 0.1  # relative to its layer, worse than channel 7 in the other
        net.scores["depthwise.weight"][7] = 0.5
    found = kept(net, 14 / 16)
    assert found["stem", "out"].logical_not().nonzero().flatten().tolist() == [3, 7]
    for key in (("norm", "out"), ("depthwise", "out"), ("branch", "in")):
        assert torch.equal(found[key], found["stem", "out"])


def test_layers_without_scores_keep_their_filters() -> None:
    net = prunnet.convert(Branches(), 16, ["hidden"], preprocessing=prunnet.Preprocessing((3, 32, 32)))
    assert {name for name, side in kept(net, 0.5) if side == "out"} == {"hidden"}
    with pytest.raises(ModuleError, match="no channels that could be removed"):
        Structure(prunnet.convert(Branches(), 16, ["out"], preprocessing=prunnet.Preprocessing((3, 32, 32))))


def test_whole_heads_go() -> None:
    subnetwork = halved(make_network("vit"))
    attention = subnetwork.backbone.blocks[0].attn
    assert (attention.num_heads, attention.qkv.out_features, attention.proj.in_features) == (2, 48, 16)
    assert subnetwork.backbone.blocks[0].mlp.fc1.out_features == 64


def test_the_network_is_left_as_it_was() -> None:
    net = make_network("resnet18").train()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    structured_subnetwork(net, 0.5)
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("name", BACKBONES)
def test_shape_spec_rebuilds_the_backbone(name: str) -> None:
    subnetwork = halved(make_network(name))
    spec = json.loads(json.dumps(shape_spec(subnetwork.backbone)))
    rebuilt = resize(make_network(name).backbone, spec).eval()
    rebuilt.load_state_dict(subnetwork.backbone.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(rebuilt(IMAGES), subnetwork.backbone(IMAGES))


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("branches", {"elsewhere": [1, 1]}, "does not have"),
        ("branches", {"hidden": [41, 24]}, "can only shrink"),
        ("branches", {"hidden": [0, 24]}, "can only shrink"),
        ("branches", {"hidden": [4]}, "can only shrink"),
        ("resnext50_32x4d", {"layer1.0.conv2": [3, 3]}, "cuts through the conv groups"),
        ("vit", {"blocks.0.attn.proj": [32, 12], "blocks.0.attn.qkv": [36, 32]}, "cuts through the heads"),
    ],
)
def test_a_foreign_shape_spec_is_refused(name: str, spec: dict[str, list[int]], message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        resize(make_network(name).backbone, spec)


def test_torch_pruning_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch_pruning", None)
    with pytest.raises(MissingExtraError, match=r"prunnet\[structured\]"):
        structured_subnetwork(make_network("branches"), 0.5)
