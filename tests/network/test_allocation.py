"""How a capacity is divided among layers: exact totals, nested counts, and what is spared."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.networks import make
from torch import nn

import prunnet
from prunnet.errors import ModuleError
from prunnet.network.allocation import Sensitive, Uniform
from prunnet.network.capacity import kept_connections
from prunnet.storage.prun import read_contents

layers = st.lists(st.tuples(st.integers(1, 10_000), st.floats(1e-3, 1e3)), min_size=1, max_size=12)
capacities = st.floats(1e-4, 1.0)


@settings(deadline=None)
@given(layers=layers, first=capacities, second=capacities)
def test_counts_are_nested_and_add_up_to_the_capacity(layers, first, second) -> None:
    connections = {str(i): n for i, (n, _) in enumerate(layers)}
    allocation = Sensitive({str(i): sensitivity for i, (_, sensitivity) in enumerate(layers)})
    smaller, larger = (allocation.kept(capacity, connections) for capacity in sorted((first, second)))
    assert all(1 <= smaller[name] <= larger[name] <= n for name, n in connections.items())
    assert abs(sum(larger.values()) - max(first, second) * sum(connections.values())) <= len(layers)
    assert allocation.kept(1.0, connections) == connections


@settings(deadline=None)
@given(layers=layers, capacity=capacities)
def test_more_sensitive_layers_keep_a_larger_share(layers, capacity) -> None:
    connections = {str(i): n for i, (n, _) in enumerate(layers)}
    sensitivities = {str(i): sensitivity for i, (_, sensitivity) in enumerate(layers)}
    kept = Sensitive(sensitivities).kept(capacity, connections)
    ranked = sorted(connections, key=sensitivities.__getitem__)
    for low, high in pairwise(ranked):
        assert (kept[low] - 1) / connections[low] <= (kept[high] + 1) / connections[high]


@settings(deadline=None)
@given(sizes=st.lists(st.integers(1, 10_000), min_size=1), capacity=capacities)
def test_the_uniform_one_keeps_the_nearest_whole_number(sizes, capacity) -> None:
    connections = {str(i): n for i, n in enumerate(sizes)}
    assert Uniform().kept(capacity, connections) == {
        name: kept_connections(capacity, n) for name, n in connections.items()
    }


def test_depthwise_and_first_layers_stay_whole_and_small_ones_are_spared() -> None:
    backbone = make("mobilenetv2_100").backbone
    net = prunnet.convert(
        backbone, 16, selection=prunnet.Connections("protected"), preprocessing=prunnet.Preprocessing((3, 32, 32))
    )
    depthwise = [
        f"{name}.weight"
        for name, layer in backbone.named_modules()
        if isinstance(layer, nn.Conv2d) and layer.groups > 1
    ]
    decisive = ("conv_stem.weight", *depthwise)
    smaller, small, large = net.masks_at((0.03, 0.07, 0.3))
    assert len(depthwise) == 17
    assert all(small[name].all() for name in decisive)  # 3 % of all connections
    least = {name: int(mask.sum()) for name, mask in smaller.items()}
    assert sum(least[name] for name in decisive) == pytest.approx(sum(least.values()) / 2, rel=0.01)
    assert all(bool((large[name] | ~mask).all()) for name, mask in small.items())
    kept = sum(int(mask.sum()) for mask in small.values())
    assert kept == pytest.approx(0.07 * sum(mask.numel() for mask in small.values()), abs=len(small))
    assert 0 < small["conv_head.weight"].float().mean() < small["blocks.1.0.conv_pw.weight"].float().mean() < 1


def test_costs_and_budgets_follow_the_allocation() -> None:
    net = make("mobilenetv2_100")
    preprocessing = prunnet.Preprocessing((3, 32, 32))
    uniform, protected = (
        prunnet.convert(net.backbone, 16, selection=prunnet.Connections(name), preprocessing=preprocessing)
        for name in ("uniform", "protected")
    )
    for capacity in (0.05, 0.2):
        cost, even = prunnet.cost(protected, capacity), prunnet.cost(uniform, capacity)
        masks = protected.masks(capacity)
        assert [layer.kept for layer in cost.layers] == [int(mask.sum()) for mask in masks.values()]
        assert abs(cost.parameters - even.parameters) <= 2 * len(masks)  # the same capacity
        assert cost.macs > even.macs  # spared layers see more pixels
    found = prunnet.capacity_for(protected, max_macs="2M")
    assert prunnet.cost(protected, found).macs <= 2e6 < prunnet.cost(protected, found * 1.01).macs


def test_an_allocation_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ModuleError, match="allocation must be one of uniform, protected, measured; found 'fair'"):
        prunnet.convert(nn.Sequential(nn.Flatten(), nn.Linear(4, 4)), selection=prunnet.Connections("fair"),  # type: ignore[arg-type]
                        preprocessing=prunnet.Preprocessing((1, 2, 2)))  # fmt: skip


def test_a_family_keeps_its_allocation_wherever_it_is_stored(tmp_path) -> None:
    torch.manual_seed(0)
    net = prunnet.convert(
        prunnet.create_backbone("mobilenetv2_100"),
        8,
        preprocessing=prunnet.Preprocessing((3, 32, 32)),
        selection=prunnet.Connections("protected"),
    ).eval()
    images = torch.rand(4, 3, 32, 32)
    net.capacities = (0.1,)
    prunnet.adapt_batchnorm(net, [images], capacities=(0.1, 0.05))
    again = prunnet.load(net.save(tmp_path / "family"))
    assert isinstance(again, prunnet.PrunableNetwork)
    prunnet.pack(net, tmp_path / "family.prun", grid=(0.05, 0.1, 1.0), loader=[images])
    unpacked = prunnet.unpack(tmp_path / "family.prun", 0.1)
    masks = net.masks(0.1)
    for name, mask in masks.items():
        assert torch.equal(again.masks(0.1)[name], mask)
        expected = net.backbone.get_parameter(name) * mask
        torch.testing.assert_close(unpacked.backbone.get_parameter(name), expected, rtol=2**-10, atol=1e-8)
    with torch.no_grad():
        assert torch.equal(again(images, capacity=0.1), net(images, capacity=0.1))
    for band in read_contents(tmp_path / "family.prun").bands:
        assert band.membership_bits <= 1.01 * band.bound_bits + 64
