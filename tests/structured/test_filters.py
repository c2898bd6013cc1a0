"""A family whose members drop whole filters: trained masked, deployed physically smaller, equal all along."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coupled import BACKBONES, make_network, random_images
from torch import Tensor
from torch.func import functional_call

import prunnet
from prunnet.costs.structured_profile import StructuredCostProfile
from prunnet.deploy import prune
from prunnet.deploy.export import export
from prunnet.errors import CapacityError, KindError, MissingExtraError, ModuleError, PrunNetError
from prunnet.gradients import Sum
from prunnet.methods import FixedCapacities, PrunNet, PrunNetOptions
from prunnet.storage.subnetwork_folder import load_subnetwork, save_subnetwork
from prunnet.structured import structured_subnetwork

CAPACITIES = (0.8, 0.5, 0.4)
IMAGES = random_images(4)
pytestmark = pytest.mark.filterwarnings("ignore::prunnet.NotAdaptedWarning")


def train_a_little(net: prunnet.PrunableNetwork, steps: int = 2) -> prunnet.PrunableNetwork:
    method = PrunNet(net, 3, PrunNetOptions(capacities=FixedCapacities(CAPACITIES), shared="mean")).train()
    optimiser = torch.optim.SGD(method.parameters(), lr=0.05, momentum=0.9)
    for number in range(steps):
        step = method.step(number)
        step.backward(random_images(6, seed=number), torch.tensor([0, 1, 2, 0, 1, 2]))
        step.finish()
        optimiser.step()
        optimiser.zero_grad()
    net.capacities = CAPACITIES
    return net.eval()


@pytest.mark.parametrize("name", BACKBONES)
@torch.no_grad()
def test_pass_subnetwork_and_smaller_network_agree_after_training(name: str) -> None:
    with torch.enable_grad():
        net = train_a_little(make_network(name, prunnet.Filters()))
    prunnet.adapt_batchnorm(net, [random_images(16, seed=9)], capacities=CAPACITIES)
    for capacity in CAPACITIES:
        expected = net(IMAGES, capacity)
        masked, smaller = net.subnetwork(capacity), structured_subnetwork(net, capacity)
        torch.testing.assert_close(masked(IMAGES), expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(smaller(IMAGES), expected, rtol=0, atol=1e-5)
        assert smaller.adapted and smaller.capacity == capacity
        left = sum(p.numel() for p in smaller.backbone.parameters())
        assert left == prunnet.cost(net, capacity).backbone_parameters
        assert left <= capacity * sum(p.numel() for p in net.backbone.parameters())
        masks = net.masks(capacity)
        dropped = sum(int(mask.numel() - mask.sum()) for mask in masks.values())
        assert dropped == sum(p.numel() for p in net.backbone.parameters()) - left
    assert (net(IMAGES, CAPACITIES[-1]) - net(IMAGES)).abs().max() > 1e-3


def test_the_member_drops_what_the_view_of_the_same_scores_drops() -> None:
    family, plain = make_network("mobilenetv2", prunnet.Filters()), make_network("mobilenetv2")
    plain.load_state_dict(family.state_dict())
    for capacity in (0.7, 0.4):
        member, view = structured_subnetwork(family, capacity), structured_subnetwork(plain, capacity)
        assert all(torch.equal(t, view.state_dict()[name]) for name, t in member.state_dict().items())


FAMILIES = {name: make_network(name, prunnet.Filters()) for name in ("resnet18", "mobilenetv2", "vit")}


@pytest.mark.parametrize("name", list(FAMILIES))
@settings(max_examples=15, deadline=None)
@given(capacities=st.tuples(st.floats(0.4, 1), st.floats(0.4, 1)))
def test_members_are_nested_and_one_is_everything(name: str, capacities: tuple[float, float]) -> None:
    net = FAMILIES[name]
    small, large = (net.masks(capacity) for capacity in sorted(capacities))
    for weight in small:
        assert small[weight].shape == net.backbone.get_parameter(weight).shape
        assert not (small[weight] & ~large[weight]).any()
    assert all(mask.all() for mask in net.masks(1.0).values())
    assert set(net.scores) <= set(small)


def test_masks_follow_the_scores_and_name_the_layer_that_diverged() -> None:
    net = make_network("branches", prunnet.Filters())
    before = net.masks(0.5)
    assert net.masks(0.5) is before
    with torch.no_grad():
        net.scores["stem.weight"].copy_(net.scores["stem.weight"].flip(0))
    assert not torch.equal(net.masks(0.5)["norm.bias"], before["norm.bias"])
    with torch.no_grad():
        net.scores["hidden.weight"][0] = torch.nan
    with pytest.raises(PrunNetError, match=r"the scores of hidden.weight contain NaN"):
        net.masks(0.5)


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2", "vit"])
def test_gradients_of_a_pass_follow_equation_2_and_reach_norms_through_the_mask(name: str) -> None:
    capacity, labels = 0.5, torch.tensor([0, 1, 2, 0])
    net = make_network(name, prunnet.Filters())
    options = PrunNetOptions(
        capacities=FixedCapacities((capacity,)), integrator=Sum(), shared="integrated", normalise_step=False
    )
    method = PrunNet(net, 3, options).eval()
    step = method.step(0)
    step.backward(IMAGES, labels)
    rows = {n: r[1].clone() for stack in (step.weights, step.shared) for n, r in stack.layers.items()}
    step.finish()
    found = {n: p.grad for n, p in net.scores.items()}

    masks, dense = net.masks(capacity), {n: torch.ones_like(net.weights[n], dtype=torch.bool) for n in net.scores}
    total = {n: torch.zeros_like(score) for n, score in net.scores.items()}
    for kept in (dense, masks):
        method.zero_grad()
        effective = {n: (net.backbone.get_parameter(n) * kept[n]).detach().requires_grad_() for n in net.scores}
        others = {n: net.backbone.get_parameter(n) * kept[n] for n in kept if n not in net.scores}
        features = functional_call(net.backbone, {**effective, **others}, (IMAGES,))
        method.loss(net.head(features), labels).backward()
        for n, leaf in effective.items():
            total[n] += leaf.grad * kept[n] * net.weights[n].detach() * net.scores[n].detach().sign()
    for n, leaf in effective.items():
        torch.testing.assert_close(rows[n], leaf.grad * masks[n])
        torch.testing.assert_close(found[n], total[n])
    for n in method.shared_parameters:
        torch.testing.assert_close(rows[n], method.shared_parameters[n].grad)
    dropped = {n: ~mask for n, mask in masks.items() if n not in net.scores}
    assert any(mask.any() for mask in dropped.values())
    assert not any(rows[f"backbone.{n}"][mask].any() for n, mask in dropped.items())


def test_a_dropped_filter_leaves_no_constant_in_a_training_pass() -> None:
    net = make_network("resnet18", prunnet.Filters()).train()
    seen: dict[str, Tensor] = {}
    norm = net.backbone.layer1[0].bn1
    hook = norm.register_forward_hook(lambda _module, _inputs, output: seen.update(output=output.detach()))
    net(IMAGES, 0.4)
    hook.remove()
    dropped = ~net.masks(0.4)["layer1.0.bn1.bias"]
    assert dropped.any() and norm.bias[dropped].abs().min() > 0
    assert not seen["output"][:, dropped].any() and seen["output"][:, ~dropped].any()


def test_a_structured_family_comes_back_from_its_folder(tmp_path) -> None:
    net = make_network("resnet18", prunnet.Filters())
    prunnet.adapt_batchnorm(net, [random_images(16)], capacities=CAPACITIES)
    prunnet.save(net, tmp_path / "family")
    again = prunnet.load(tmp_path / "family")
    assert isinstance(again.selection, prunnet.Filters)
    with torch.no_grad():
        torch.testing.assert_close(again(IMAGES, 0.5), net(IMAGES, 0.5))
    assert "subnetworks of whole filters" in (tmp_path / "family" / "README.md").read_text()


@torch.no_grad()
def test_pruning_and_exporting_a_member_gives_the_smaller_network(tmp_path) -> None:
    net = make_network("resnet18", prunnet.Filters())
    with pytest.raises(CapacityError, match=r"the 50 % subnetwork has no batch-norm statistics"):
        prune(net, capacity=0.5)
    prunnet.adapt_batchnorm(net, [random_images(16)], capacities=(0.5,))
    member, expected = prune(net, capacity=0.5), net(IMAGES, 0.5)
    assert sum(p.numel() for p in member.parameters()) == prunnet.cost(net, 0.5).parameters
    torch.testing.assert_close(load_subnetwork(save_subnetwork(member, tmp_path / "member"))(IMAGES), expected)
    torch.testing.assert_close(export(member, tmp_path / "member.pt2")(IMAGES), expected, rtol=0, atol=1e-4)


def test_costs_and_budgets_are_those_of_the_smaller_network() -> None:
    net = make_network("resnet18", prunnet.Filters())
    half = prunnet.cost(net, 0.5)
    profile = StructuredCostProfile(net)
    assert half.bytes == profile.bytes_of(net.selection.structure.width_for(0.5))
    found = prunnet.capacity_for(net, max_bytes=half.bytes, max_macs=half.macs)
    assert prunnet.cost(net, found).bytes == half.bytes and prunnet.cost(net, found).macs == half.macs
    assert prune(net, max_bytes=half.bytes, loader=[random_images(8)]).capacity == found <= 0.5
    assert prunnet.cost(net, 1.0).parameters == sum(
        p.numel() for p in [*net.backbone.parameters(), *net.head.parameters()]
    )
    with pytest.raises(CapacityError, match="no structured subnetwork fits"):
        prunnet.capacity_for(net, max_bytes=100)


def test_what_a_structured_family_cannot_do_is_refused(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = make_network("branches", prunnet.Filters())
    with pytest.raises(KindError, match="this network selects filters"):
        prunnet.pack(net, tmp_path / "family.prun", loader=[random_images(8)])
    with pytest.raises(CapacityError, match="the narrowest has"):
        net.subnetwork(0.001)
    with pytest.raises(ModuleError, match="no channels that could be removed"):
        prunnet.convert(net.backbone, 16, ["out"], preprocessing=net.preprocessing, selection=prunnet.Filters())
    monkeypatch.setitem(__import__("sys").modules, "torch_pruning", None)
    with pytest.raises(MissingExtraError, match=r"prunnet\[structured\]"):
        make_network("branches", prunnet.Filters())


def test_a_run_trains_a_structured_family(tmp_path) -> None:
    options = {"in_chans": 1, "channels": [16, 16, 32, 32], "layers": [1, 1, 1, 1]}
    run = prunnet.train(
        "resnet18",
        "glyphs",
        out=tmp_path / "run",
        quiet=True,
        selection="filters",
        backbone_options=options,
        input_size=(1, 32, 32),
        embedding_dim=16,
        capacities=(0.6, 0.4),
        epochs=1,
        batch_size=16,
        adapt_batches=2,
        data_options={"classes": 12, "images_per_class": 8},
    )
    net = prunnet.load(run.folder / "model")
    assert isinstance(net.selection, prunnet.Filters) and run.matrix.values.shape == (3, 3)
    images = torch.randn(4, 1, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(structured_subnetwork(net, 0.4)(images), net(images, 0.4), rtol=0, atol=1e-5)
