import copy
import warnings

import pytest
import torch
from tests.networks import images_for
from torch import nn

import prunnet
from prunnet.errors import CapacityError, FamilyError, ImageError
from prunnet.network import batchnorm


def loader_for(net: prunnet.PrunableNetwork, batches: int = 3, size: int = 8) -> list[torch.Tensor]:
    return [3 * images_for(net, size, seed=seed) + 1 for seed in range(batches)]


def modes_of(module: nn.Module) -> list[bool]:
    return [submodule.training for submodule in module.modules()]


def slow_statistics(module: prunnet.Subnetwork, loader: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Mean over batches of each batch's own mean and unbiased variance, read off by hooks, layer by layer."""
    collected: dict[str, list[torch.Tensor]] = {}

    def hook(name: str):
        def read(_, inputs) -> None:
            values = inputs[0].transpose(0, 1).flatten(1)
            collected.setdefault(f"{name}.running_mean", []).append(values.mean(1))
            collected.setdefault(f"{name}.running_var", []).append(values.var(1))

        return read

    module = copy.deepcopy(module).eval()
    for name, layer in batchnorm.layers(module).items():
        layer.train()
        layer.register_forward_pre_hook(hook(name))
    with torch.no_grad():
        for images in loader:
            module(images)
    return {name: torch.stack(values).mean(0) for name, values in collected.items()}


@pytest.mark.filterwarnings("ignore::prunnet.NotAdaptedWarning")
def test_statistics_are_the_average_over_batches(small_net) -> None:
    subnetwork, loader = small_net.subnetwork(0.5), loader_for(small_net)
    expected = slow_statistics(subnetwork, loader)
    prunnet.adapt_batchnorm(subnetwork, loader)
    for name, tensor in expected.items():
        if name.endswith("running_var"):
            tensor[tensor < 1e-9] = 1.0  # channels that are constant
        torch.testing.assert_close(subnetwork.get_buffer(name), tensor)


def test_network_and_subnetwork_adapt_alike(small_net) -> None:
    loader = loader_for(small_net)
    alone = small_net.subnetwork(0.5)
    prunnet.adapt_batchnorm(alone, [(images, "label") for images in loader])
    prunnet.adapt_batchnorm(small_net, loader, capacities=(0.5, 0.2))
    handed = small_net.subnetwork(0.5)
    for name in batchnorm.buffers(batchnorm.layers(alone)):
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(handed.get_buffer(name), alone.get_buffer(name))
    with torch.no_grad():
        images = images_for(small_net)
        torch.testing.assert_close(small_net.eval()(images, 0.5), alone(images), atol=1e-5, rtol=0)


def test_only_statistics_change_and_modes_are_restored(small_net) -> None:
    small_net.train()
    small_net.backbone.norm.eval()
    modes, momentum = modes_of(small_net), small_net.backbone.norm.momentum
    before = {name: tensor.clone() for name, tensor in small_net.state_dict().items()}
    prunnet.adapt_batchnorm(small_net, loader_for(small_net), capacities=(0.5,))
    assert modes_of(small_net) == modes and small_net.backbone.norm.momentum == momentum
    after = small_net.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert {name for name in after if name not in before} == {f"statistics.{n}" for n in small_net.statistics.tensors()}
    assert 0.5 in small_net.statistics and all(p.grad is None for p in small_net.parameters())


def test_modes_are_restored_after_a_failure(small_net) -> None:
    small_net.train()
    modes = modes_of(small_net)
    with pytest.raises(RuntimeError):
        prunnet.adapt_batchnorm(small_net, [torch.zeros(2, 5, 32, 32)], capacities=(0.5,))
    assert modes_of(small_net) == modes and len(small_net.statistics) == 0


def test_capacity_one_adapts_the_dense_network_itself(small_net) -> None:
    before = small_net.backbone.norm.running_mean.clone()
    prunnet.adapt_batchnorm(small_net, loader_for(small_net), capacities=(1,))
    assert not torch.equal(small_net.backbone.norm.running_mean, before)
    assert 1.0 not in small_net.statistics


def test_capacities_default_to_those_trained(small_net) -> None:
    small_net.capacities = (0.6, 0.3)
    prunnet.adapt_batchnorm(small_net, loader_for(small_net))
    assert set(small_net.statistics) == {0.6, 0.3}


def test_a_dense_network_adapted_again_is_another_family(small_net) -> None:
    images, first = images_for(small_net), small_net.family_id
    small_net.capacities = (0.8,)
    prunnet.adapt_batchnorm(small_net, loader_for(small_net))
    prunnet.adapt_batchnorm(small_net, loader_for(small_net), capacities=(0.3,))
    assert small_net.family_id == first
    indexed = small_net.eval().encode(list(images))
    with pytest.raises(ImageError, match="no batch"):
        prunnet.adapt_batchnorm(small_net, [])
    assert small_net.family_id == first
    prunnet.adapt_batchnorm(small_net, loader_for(small_net))
    assert set(small_net.statistics) == {0.8}
    with pytest.raises(FamilyError, match=first):
        small_net.encode(list(images), capacity=0.8).similarity(indexed)


def test_max_batches_reads_no_further(small_net) -> None:
    def endless():
        yield from loader_for(small_net, batches=2)
        raise AssertionError("a third batch was asked for")

    prunnet.adapt_batchnorm(small_net, endless(), adapt_batches=2, capacities=(0.5,))


@torch.no_grad()
def test_a_capacity_never_adapted_warns_once_by_name(small_net) -> None:
    small_net.eval()
    images = images_for(small_net)
    for module, arguments in ((small_net, (0.13,)), (small_net.subnetwork(0.13), ())):
        with pytest.warns(prunnet.NotAdaptedWarning, match=rf"13 % subnetwork of family {small_net.family_id}"):
            module(images, *arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            module(images, *arguments)


@torch.no_grad()
def test_no_warning_where_none_is_due(small_net) -> None:
    small_net.eval()
    images = images_for(small_net)
    prunnet.adapt_batchnorm(small_net, loader_for(small_net), capacities=(0.5,))
    late = small_net.subnetwork(0.13)
    prunnet.adapt_batchnorm(late, loader_for(small_net))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small_net(images)
        small_net(images, 0.5)
        small_net.subnetwork(0.5)(images)
        small_net.subnetwork(1.0)(images)
        late(images)
        small_net.train()(images, 0.13)  # training statistics are the batch's own


def test_statistics_move_with_the_network(small_net) -> None:
    prunnet.adapt_batchnorm(small_net, loader_for(small_net), capacities=(0.5,))
    adapted = copy.deepcopy(small_net).double().statistics.get(0.5)
    assert adapted is not None and all(tensor.dtype == torch.float64 for tensor in adapted.values())


def test_what_cannot_be_adapted_is_refused(small_net) -> None:
    with pytest.raises(ImageError, match="no batch of two or more images"):
        prunnet.adapt_batchnorm(small_net, [images_for(small_net, 1)], capacities=(0.5,))
    with pytest.raises(ImageError, match="no batch of two or more images"):
        prunnet.adapt_batchnorm(small_net, [], capacities=(0.5,))
    with pytest.raises(CapacityError, match=r"a subnetwork has one capacity, 0\.5"):
        prunnet.adapt_batchnorm(small_net.subnetwork(0.5), loader_for(small_net), capacities=(0.2,))
    with pytest.raises(CapacityError, match="capacities is empty"):
        prunnet.adapt_batchnorm(small_net, loader_for(small_net), capacities=())
    with pytest.raises(CapacityError, match="must be a sequence"):
        prunnet.adapt_batchnorm(small_net, loader_for(small_net), capacities=0.5)


@torch.no_grad()
def test_a_filter_that_reads_only_dropped_ones_does_not_magnify_rounding() -> None:
    """conv2's first filter sees channel 0 alone, which conv1 does not feed: a constant, the bias of its norm."""
    torch.manual_seed(0)
    backbone = nn.Sequential()
    for number in (1, 2, 3):
        backbone.add_module(f"conv{number}", nn.Conv2d(3 if number == 1 else 8, 8, 1, bias=False))
        backbone.add_module(f"norm{number}", nn.BatchNorm2d(8))
        backbone.add_module(f"relu{number}", nn.ReLU())
    backbone.add_module("pool", nn.AdaptiveAvgPool2d(1))
    backbone.add_module("flatten", nn.Flatten())
    for layer in batchnorm.layers(backbone).values():
        layer.bias.uniform_(0.5, 1.5)
    backbone.conv1.weight[0] = 0
    for conv in (backbone.conv2, backbone.conv3):
        conv.weight[0, 1:] = 0
    net = prunnet.convert(backbone, 8, preprocessing=prunnet.Preprocessing((3, 8, 8)))
    images = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    prunnet.adapt_batchnorm(net, [images], capacities=(1.0,))
    exact = net.subnetwork(1.0)
    rounded = copy.deepcopy(exact)
    for name, parameter in rounded.named_parameters():
        if "conv" in name:
            parameter.copy_(parameter.half())
    assert (exact(images) * rounded(images)).sum(1).min() > 0.999
