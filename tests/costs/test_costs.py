import math

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.networks import images_for

import prunnet
from prunnet.costs.profile import CostProfile
from prunnet.costs.quantities import format_quantity, parse_quantity
from prunnet.errors import CapacityError

some = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def resnet18() -> prunnet.PrunableNetwork:
    torch.manual_seed(0)
    return prunnet.convert(prunnet.create_backbone("resnet18"))


def test_resnet18_at_224_is_as_published(resnet18) -> None:
    dense = prunnet.cost(resnet18, 1.0)
    assert dense.backbone_parameters == 11_176_512
    assert 1.81e9 <= dense.macs <= 1.83e9


def test_vit_small_counts_attention_which_no_pruning_reduces() -> None:
    net = prunnet.convert(prunnet.create_backbone("vit_small_patch16_224"))
    dense, sparse = prunnet.cost(net, 1.0), prunnet.cost(net, 0.1)
    attention = 12 * 2 * 197**2 * 384  # blocks · (q·kᵀ and weights·v) · tokens² · width
    linear = sum(layer.macs for layer in dense.layers)
    assert dense.macs - linear == attention + 384 * 256
    assert sparse.macs == pytest.approx(0.1 * linear + attention, rel=1e-3)


def test_macs_of_a_layer_are_those_of_its_shape(resnet18) -> None:
    layers = {layer.name: layer for layer in prunnet.cost(resnet18, 1.0).layers}
    assert layers["conv1.weight"].macs == 64 * 3 * 7 * 7 * 112 * 112
    assert layers["layer4.1.conv2.weight"].macs == 512 * 512 * 9 * 7 * 7


def test_attention_macs_are_split_between_its_projections() -> None:
    from tests.networks import torchvision_vit

    net = prunnet.convert(torchvision_vit(), 16, preprocessing=prunnet.Preprocessing((3, 32, 32)))
    layers = {layer.name: layer for layer in prunnet.cost(net, 1.0).layers}
    tokens, width = 17, 32
    prefix = "encoder.layers.encoder_layer_0.self_attention."
    assert layers[f"{prefix}in_proj_weight"].macs == tokens * 3 * width * width
    assert layers[f"{prefix}out_proj.weight"].macs == tokens * width * width


def test_counting_leaves_the_network_as_it_was(small_net) -> None:
    small_net.train()
    before = {name: tensor.clone() for name, tensor in small_net.state_dict().items()}
    prunnet.cost(small_net, 0.5)
    assert small_net.training and all(torch.equal(t, before[n]) for n, t in small_net.state_dict().items())


@pytest.mark.filterwarnings("ignore::prunnet.NotAdaptedWarning")
def test_parameters_are_what_the_subnetwork_has_left(net) -> None:
    cost = prunnet.cost(net, 0.3)
    pruned = sum(int((~mask).sum()) for mask in net.masks(0.3).values())
    subnetwork = net.subnetwork(0.3)
    assert cost.parameters == sum(p.numel() for p in subnetwork.parameters()) - pruned
    assert cost.backbone_parameters == sum(p.numel() for p in subnetwork.backbone.parameters()) - pruned


def test_bytes_are_half_precision_values_and_the_entropy_of_membership(small_net) -> None:
    cost = prunnet.cost(small_net, 0.3)
    for layer in cost.layers:
        entropy = math.log2(math.comb(layer.connections, layer.kept))
        assert layer.bytes == 2 * layer.kept + math.ceil(entropy / 8)
    values = cost.parameters - sum(layer.kept for layer in cost.layers)
    statistics = 2 * (8 + 16)  # running mean and variance of the two batch norms
    assert cost.bytes == 2 * (values + statistics) + sum(layer.bytes for layer in cost.layers)


@some
@given(budget=st.floats(0.0, 1.2), quantity=st.sampled_from(["bytes", "macs"]))
def test_capacity_for_is_the_largest_within_the_budget(resnet18, budget: float, quantity: str) -> None:
    profile = CostProfile(resnet18)
    cost_at = profile.bytes_at if quantity == "bytes" else profile.macs_at
    limit = budget * cost_at(1.0)
    assume(limit >= cost_at(1e-9))
    capacity = prunnet.capacity_for(resnet18, **{f"max_{quantity}": limit})
    assert cost_at(capacity) <= limit
    if capacity < 1:
        assert all(cost_at(c) > limit for c in (math.nextafter(capacity, 1), (capacity + 1) / 2, 0.99999, 1.0))


@some
@given(capacity=st.floats(1e-4, 1.0))
def test_capacity_for_inverts_cost(resnet18, capacity: float) -> None:
    profile = CostProfile(resnet18)
    found = prunnet.capacity_for(resnet18, max_macs=profile.macs_at(capacity))
    assert found >= capacity and profile.macs_at(found) == profile.macs_at(capacity)


def test_both_budgets_hold_together(resnet18) -> None:
    capacity = prunnet.capacity_for(resnet18, max_bytes="6MB", max_macs="200M")
    assert capacity == min(
        prunnet.capacity_for(resnet18, max_bytes="6MB"), prunnet.capacity_for(resnet18, max_macs="200M")
    )


def test_a_budget_that_nothing_fits_names_the_least_possible(resnet18) -> None:
    with pytest.raises(CapacityError, match=r"no subnetwork fits 1.00 kB: the smallest possible.* takes 303\.\d+ kB"):
        prunnet.capacity_for(resnet18, max_bytes="1KB")
    with pytest.raises(CapacityError, match="name a budget"):
        prunnet.capacity_for(resnet18)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [("3MB", "B", 3e6), ("3 MiB", "B", 3 * 2**20), ("200kb", "B", 2e5), ("1.5G", "", 1.5e9), ("200 MMACs", "", 2e8)],
)
def test_quantities_are_read_as_people_write_them(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value


@pytest.mark.parametrize("text", ["", "MB", "3 apples", "-3MB", "0", "3MB3", "nan", float("nan"), 0, -1])
def test_what_is_no_quantity_is_refused(text) -> None:
    with pytest.raises(CapacityError, match="budget"):
        parse_quantity(text, "B")


def test_quantities_are_written_with_a_prefix() -> None:
    assert [format_quantity(v, "B") for v in (12, 1500, 2.9e6, 4e9)] == ["12 B", "1.50 kB", "2.90 MB", "4.00 GB"]


def test_cost_does_not_depend_on_the_batch_norm_mode(small_net) -> None:
    assert prunnet.cost(small_net.train(), 0.5) == prunnet.cost(small_net.eval(), 0.5)
    small_net(images_for(small_net))
