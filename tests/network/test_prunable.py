import copy
import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.networks import HandWritten, images_for, torchvision_vit
from torch import nn

import prunnet
from prunnet._torchvision import require_torchvision
from prunnet.errors import CapacityError, ImageError, ModuleError

pytestmark = pytest.mark.filterwarnings("ignore::prunnet.NotAdaptedWarning")
capacities = st.floats(min_value=0.001, max_value=1.0)
few = settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


# Invariant 1: nested, exact
@few
@given(first=capacities, second=capacities)
def test_every_layer_keeps_exactly_its_share_and_masks_are_nested(net, first: float, second: float) -> None:
    small, large = (net.masks(capacity) for capacity in sorted((first, second)))
    connections = {name: weight.numel() for name, weight in net.weights.items()}
    kept = net.selection.allocation.kept(min(first, second), connections)
    for name, weight in net.weights.items():
        assert small[name].dtype == torch.bool and small[name].shape == weight.shape
        assert small[name].sum() == kept[name]
        assert not (small[name] & ~large[name]).any()
    assert all(mask.all() for mask in net.masks(1.0).values())


# Invariant 2: the masked pass is the subnetwork
@few
@given(capacity=capacities)
@torch.no_grad()
def test_masked_pass_equals_subnetwork(net, capacity: float) -> None:
    images = images_for(net)
    torch.testing.assert_close(net(images, capacity), net.subnetwork(capacity)(images), atol=1e-5, rtol=0)


# Invariant 3: a pass at c < 1 leaves the dense network alone
@pytest.mark.parametrize("training", [True, False])
def test_a_pass_touches_neither_weights_nor_statistics_nor_gradients(net, training: bool) -> None:
    before = state_of(net)
    net.train(training)
    embedding = net(images_for(net), 0.3, normalise=False)
    torch.autograd.grad(embedding.square().sum(), list(net.weights.values()))
    assert same(before, state_of(net))
    assert all(parameter.grad is None for parameter in net.parameters())
    net.eval()


def test_dense_training_pass_updates_its_statistics(small_net) -> None:
    before = state_of(small_net)
    small_net.train()(images_for(small_net))
    changed = {name for name, tensor in small_net.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed == {
        f"{layer}.{name}"
        for layer in ("backbone.norm", "head.norm")
        for name in ("running_mean", "running_var", "num_batches_tracked")
    }


def test_weight_gradient_is_masked(small_net) -> None:
    small_net.train()(images_for(small_net), 0.3).square().sum().backward()
    gradient = small_net.weights["stem.weight"].grad
    assert gradient is not None and gradient.count_nonzero() > 0
    assert not gradient[~small_net.masks(0.3)["stem.weight"]].any()


@torch.no_grad()
def test_embeddings_are_normalised_for_search_and_raw_for_losses(small_net) -> None:
    small_net.eval()
    images = images_for(small_net)
    raw = small_net(images, 0.5, normalise=False)
    torch.testing.assert_close(small_net(images, 0.5), nn.functional.normalize(raw, dim=1))
    assert not torch.allclose(raw.norm(dim=1), torch.ones(len(raw)))
    torch.testing.assert_close(small_net.subnetwork(0.5)(images, normalise=False), raw)


def test_backbone_state_dict_loads_into_an_unconverted_backbone(net) -> None:
    backbone = net.subnetwork(0.2).backbone
    plain = copy.deepcopy(net.backbone)
    assert type(backbone) is type(plain)
    plain.load_state_dict(backbone.state_dict(), strict=True)
    for name, mask in net.masks(0.2).items():
        assert not plain.get_parameter(name)[~mask].any()


def test_subnetwork_is_independent_of_its_network(small_net) -> None:
    subnetwork = small_net.subnetwork(0.5)
    before = state_of(subnetwork)
    with torch.no_grad():
        for parameter in small_net.parameters():
            parameter.add_(1.0)
    assert same(before, state_of(subnetwork))


def test_masks_follow_the_scores(small_net) -> None:
    kept = small_net.masks(0.5)
    assert small_net.masks(0.5) is kept
    before = kept["stem.weight"]
    with torch.no_grad():
        small_net.scores["stem.weight"].copy_(1 / small_net.scores["stem.weight"])
    assert not torch.equal(small_net.masks(0.5)["stem.weight"], before)


@torch.no_grad()
def test_works_after_deepcopy_and_cast(small_net) -> None:
    small_net.eval()
    images = images_for(small_net)
    for module in (small_net, small_net.subnetwork(0.4)):
        arguments = (0.4,) if module is small_net else ()
        expected = module(images, *arguments)
        assert torch.equal(copy.deepcopy(module)(images, *arguments), expected)
        cast = copy.deepcopy(module).to("cpu", torch.float64)(images.double(), *arguments)
        assert cast.dtype == torch.float64
        torch.testing.assert_close(cast, expected.double(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_works_after_compile(small_net) -> None:
    small_net.eval()
    images, subnetwork = images_for(small_net), small_net.subnetwork(0.4)
    expected = subnetwork(images)
    torch.testing.assert_close(torch.compile(subnetwork)(images), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(torch.compile(small_net)(images, 0.4), expected, atol=1e-5, rtol=0)
    assert torch.compile(subnetwork).capacity == 0.4


def test_attention_projections_are_prunable() -> None:
    net = prunnet.convert(torchvision_vit(), 16, preprocessing=prunnet.Preprocessing((3, 32, 32)))
    prefix = "encoder.layers.encoder_layer_0."
    assert {n.removeprefix(prefix) for n in net.scores if n.startswith(prefix)} == {
        "self_attention.in_proj_weight",
        "self_attention.out_proj.weight",
        "mlp.0.weight",
        "mlp.3.weight",
    }


def test_every_convolution_and_linear_layer_is_prunable_and_nothing_else(net) -> None:
    expected = {
        weight.data_ptr()
        for layer in net.backbone.modules()
        if isinstance(layer, nn.Conv2d | nn.Linear | nn.MultiheadAttention)
        for name, weight in layer.named_parameters(recurse=False)
        if name.endswith("weight")
    }
    assert {weight.data_ptr() for weight in net.weights.values()} == expected
    assert all(net.scores[name].shape == weight.shape for name, weight in net.weights.items())


@pytest.mark.parametrize(
    ("prunable", "expected"),
    [
        (["stem"], {"stem.weight"}),
        (["stem.weight", "*wise"], {"stem.weight", "depthwise.weight"}),
        ("first", {"first.weight"}),
        (lambda _, layer: isinstance(layer, nn.Linear), {"first.weight"}),
        (None, {"stem.weight", "depthwise.weight", "grouped.weight", "first.weight"}),
    ],
)
def test_prunable_narrows_what_is_pruned(hand_written, prunable, expected: set[str]) -> None:
    assert set(prunnet.convert(hand_written, 16, prunable).scores) == expected


def test_scores_are_kaiming_uniform(net) -> None:
    for score in net.scores.values():
        bound = 1 / math.sqrt(score[0].numel())  # Kaiming-uniform with a = √5
        assert score.abs().max() <= bound
        if score.numel() > 1000:
            assert score.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize(
    ("capacity", "message"),
    [
        (0.0, "found 0"),
        (-0.1, "found -0.1"),
        (1.01, "found 1.01"),
        (20, "for 20 % write 0.2"),
        (float("nan"), "found nan"),
        ("0.2", "found '0.2' of type str"),
        (True, "found True of type bool"),
        (None, "found None of type NoneType"),
    ],
)
def test_a_capacity_outside_its_range_is_refused(small_net, capacity, message: str) -> None:
    for use in (small_net.masks, small_net.subnetwork, lambda c: small_net(images_for(small_net), c)):
        with pytest.raises(CapacityError, match=message):
            use(capacity)


@pytest.mark.parametrize("shape", [(3, 32, 32), (2, 1, 32, 32), (2, 32, 32, 3), (2, 3)])
def test_wrong_image_shapes_are_refused(small_net, shape: tuple[int, ...]) -> None:
    for module in (small_net, small_net.subnetwork(1.0)):
        with pytest.raises(ImageError, match=r"images must be a batch \[N, 3, H, W\]; found shape"):
            module(torch.zeros(shape))


class Returns(nn.Module):
    """A backbone that returns whatever it is told to."""

    def __init__(self, make) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.make = make

    def forward(self, images):
        return self.make(self.convolution(images))


@pytest.mark.parametrize(
    ("module", "arguments", "message"),
    [
        (nn.BatchNorm2d(3), {}, "has no Conv2d or Linear layer"),
        (Returns(lambda x: x), {}, "add global pooling"),
        (Returns(lambda x: (x,)), {}, "returns a tuple; a backbone must return one tensor"),
        (HandWritten(), {"prunable": ["steem"]}, "the nearest is 'stem'"),
        (HandWritten(), {"prunable": lambda *_: False}, "prunable admits none of the 4"),
        (HandWritten(), {"ranking": "absolute"}, "ranking must be one of magnitude, signed"),
        (HandWritten(), {"embedding_dim": 0}, "embedding_dim must be at least 1"),
        (HandWritten(), {"preprocessing": prunnet.Preprocessing((1, 9, 9))}, "does not take images of"),
        (nn.Sequential(nn.Flatten(), nn.Linear(12, 4)), {}, "the image size of Sequential is not known"),
    ],
)
def test_a_module_that_cannot_be_converted_is_refused(module, arguments, message: str) -> None:
    with pytest.raises(ModuleError, match=message):
        prunnet.convert(module, **arguments)


def test_layers_that_standardise_their_weights_are_refused_unless_left_out() -> None:
    require_torchvision()
    from timm.layers import ScaledStdConv2d, StdConv2d

    backbone = nn.Sequential(StdConv2d(3, 8, 3), nn.Conv2d(8, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(ModuleError, match="0 is a StdConv2d, which standardises its weights"):
        prunnet.convert(backbone, 4, preprocessing=prunnet.Preprocessing((3, 16, 16)))
    assert list(prunnet.convert(backbone, 4, ["1"], preprocessing=prunnet.Preprocessing((3, 16, 16))).scores) == [
        "1.weight"
    ]
    backbone[1] = ScaledStdConv2d(8, 8, 1)
    with pytest.raises(ModuleError, match="1 is a ScaledStdConv2d"):
        prunnet.convert(backbone, 4, ["1"], preprocessing=prunnet.Preprocessing((3, 16, 16)))


def test_an_unknown_backbone_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(ModuleError, match=r"timm has no model 'resnet81'; did you mean resnet"):
        prunnet.create_backbone("resnet81")
