"""The methods PrunNet is compared with: each takes a step on every backbone, and is what its paper says it is."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import prunnet
from prunnet.errors import GradientError, PrunNetError
from prunnet.gradients import PCGrad, Sum
from prunnet.methods import (
    SFSC,
    SSPL,
    BackwardCompatible,
    FixedCapacities,
    Independent,
    Joint,
    Method,
    PrunNet,
    PrunNetOptions,
    SwitchNet,
)
from prunnet.methods.losses import CrossEntropy, contrastive
from prunnet.methods.sfsc import evidential_loss, relative_certainty, uncertainty
from prunnet.methods.sspl import k_means
from prunnet.narrow import Members, SlimmableNetwork
from prunnet.narrow.narrowing import narrow
from prunnet.network import Subnetwork

CLASSES = 5
CAPACITIES = (0.6, 0.3)
BACKBONES: dict[str, dict[str, Any]] = {
    "resnet18": {"channels": [8, 16, 16, 32], "zero_init_last": False},
    "resnet50": {"channels": [8, 8, 16, 16], "zero_init_last": False},
    "resnext50_32x4d": {"channels": [8, 8, 16, 16], "cardinality": 4, "base_width": 16, "zero_init_last": False},
    "mobilenetv2_035": {},
    "vit_small_patch16_224": {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 6},
}


def dense(name: str = "resnet18") -> Subnetwork:
    torch.manual_seed(0)
    backbone = prunnet.create_backbone(name, **BACKBONES[name])
    return prunnet.convert(backbone, 16, preprocessing=prunnet.Preprocessing((3, 32, 32))).subnetwork(1.0)


def members(wide: Subnetwork, *capacities: float, base: Members | None = None) -> Members:
    return Members([narrow(wide, capacity)[0] for capacity in capacities], base)


def make(method: str, name: str = "resnet18") -> Method:
    wide = dense(name)
    made: Method
    match method:
        case "independent":
            made = Independent(members(wide, 1.0, *CAPACITIES), CLASSES)
        case "joint":
            made = Joint(members(wide, 1.0, *CAPACITIES), CLASSES)
        case "switchnet":
            made = SwitchNet(SlimmableNetwork(wide, CAPACITIES), CLASSES, normalise_step=False)
        case "asymmetric":
            made = SwitchNet(SlimmableNetwork(wide, CAPACITIES), CLASSES, loss="contrastive")
        case "sfsc":
            made = SFSC(SlimmableNetwork(wide, CAPACITIES), CLASSES, integrator=PCGrad())
        case "sspl":
            made = SSPL(members(wide, *CAPACITIES, base=Members([dense(name)])), subspaces=4, codewords=3)
            made.prepare([batch()[0]])
        case "bct":
            made = Independent(members(wide, 0.1, base=Members([dense(name)])), CLASSES)
            made.hear(nn.Linear(16, CLASSES), range(CLASSES))
    return made.train()


METHODS = ("independent", "joint", "switchnet", "asymmetric", "sfsc", "sspl", "bct")


def batch(count: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, 32, 32, generator=generator), torch.arange(count) % CLASSES


def step(method: Method, labels: Tensor | None = None, parts: int = 1) -> dict[str, float]:
    """The losses of one step, whose gradients are left in place."""
    images, own = batch()
    labels = own if labels is None else labels
    taken = method.step(0)
    for image, label in zip(images.chunk(parts), labels.chunk(parts), strict=True):
        losses = taken.backward(image, label, 1 / parts)
    taken.finish()
    return {name: float(loss) for name, loss in losses.items()}


def gradients(method: Method) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in method.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("method", METHODS)
def test_each_takes_a_step_on_each_backbone(method: str, name: str) -> None:
    made = make(method, name)
    optimiser = torch.optim.SGD([p for p in made.parameters() if p.requires_grad], lr=0.05)
    before = {n: p.detach().clone() for n, p in made.named_parameters()}
    losses = step(made)
    optimiser.step()
    still = [n for n, p in made.named_parameters() if p.requires_grad and p.ndim > 1 and torch.equal(p, before[n])]
    assert still == []
    assert all(p.isfinite().all() for p in made.parameters())
    expected = {"sspl": ["0.6", "0.3"], "bct": ["0.1"]}.get(method, ["1", "0.6", "0.3"])
    assert list(losses) == expected
    assert {made.family.subnetwork(float(c)).capacity for c in expected} == set(map(float, expected))


@pytest.mark.parametrize("method", METHODS)
def test_micro_batches_add_up(method: str, monkeypatch) -> None:
    """With batch norm on running statistics, three micro-batches are one batch."""
    if method == "asymmetric":
        pytest.skip("its loss compares the images of a batch with each other")
    # the weights of SFSC are those of a micro-batch: here all alike
    monkeypatch.setattr("prunnet.methods.sfsc.relative_certainty", lambda *_: torch.tensor(0.5))
    whole, parts = make(method), make(method)
    for made, count in ((whole, 1), (parts, 3)):
        made.eval()
        step(made, parts=count)
    for name, gradient in gradients(whole).items():
        assert torch.allclose(gradient, gradients(parts)[name], atol=1e-5), name


@pytest.mark.parametrize("method", METHODS)
def test_a_scaled_loss_leaves_gradients_of_their_true_size(method: str) -> None:
    plain, scaled = make(method), make(method)
    for made, scale in ((plain, 1.0), (scaled, 2.0**20)):
        taken = made.step(0, scale=scale)
        taken.backward(*batch())
        taken.finish()
    for name, gradient in gradients(plain).items():
        assert torch.allclose(gradient, gradients(scaled)[name], atol=1e-6), name


@pytest.mark.parametrize("method", METHODS)
def test_a_gradient_that_overflows_is_reported(method: str) -> None:
    taken = make(method).step(0, scale=1e39)  # more than float32 holds
    taken.backward(*batch())
    with pytest.raises(GradientError, match="is not finite: lower the learning rate or the loss scale"):
        taken.finish()


def test_independent_networks_do_not_know_of_each_other() -> None:
    together = make("independent")
    step(together)
    alone = Independent(members(dense(), 0.3), CLASSES).train()
    alone.classifiers[0].load_state_dict(together.classifiers[2].state_dict())
    step(alone)
    member = dict(together.family.by_capacity[0.3].named_parameters())
    for name, parameter in alone.family.by_capacity[0.3].named_parameters():
        assert torch.equal(parameter.grad, member[name].grad)
    assert together.classifier is None


def test_joint_learning_has_one_classifier_for_all() -> None:
    method = make("joint")
    classifiers = [
        layer for layer in method.modules() if isinstance(layer, nn.Linear) and layer.out_features == CLASSES
    ]
    assert classifiers == [method.classifier]
    step(method)
    images, labels = batch()
    method.zero_grad()
    total = sum(
        F.cross_entropy(method.classifier(m(images, normalise=False)), labels)
        for m in method.family.by_capacity.values()
    )
    expected = torch.autograd.grad(total, method.classifier.weight)[0]
    step(method)
    assert torch.allclose(method.classifier.weight.grad, expected, atol=1e-5)


def test_a_narrower_switch_is_a_leading_slice_and_its_norms_are_its_own() -> None:
    method = make("switchnet")
    optimiser = torch.optim.SGD(method.parameters(), lr=0.1)
    step(method)
    optimiser.step()
    network = method.family
    small, wide = network.subnetwork(0.3), network.subnetwork(1.0)
    for name in network.shared:
        taken, whole = small.get_parameter(name), wide.get_parameter(name)
        assert torch.equal(taken, whole[tuple(slice(size) for size in taken.shape)])
    for tensor in ("bias", "running_mean"):
        own, other = (getattr(network.backbone.layer4[0].bn1, tensor) for network in (small, wide))
        assert not torch.equal(own, other[: len(own)])


@pytest.mark.parametrize("name", BACKBONES)
def test_a_switchnet_tells_of_the_layers_that_prunnet_prunes(name: str) -> None:
    taken = make("switchnet", name).step(0)
    taken.backward(*batch())
    backbone = prunnet.create_backbone(name, **BACKBONES[name])
    prunable = prunnet.convert(backbone, 16, preprocessing=prunnet.Preprocessing((3, 32, 32))).weights
    assert set(taken.finish().weights.layers) == {f"backbone.{weight}" for weight in prunable}


def test_summed_gradients_of_a_switchnet_are_those_of_the_summed_loss() -> None:
    method = make("switchnet")
    images, labels = batch()
    total = sum(method.loss(method.network(images, c, normalise=False), labels) for c in (1.0, *CAPACITIES))
    expected = torch.autograd.grad(total, [*method.shared_parameters.values()])
    method = make("switchnet")
    step(method)
    for (name, parameter), gradient in zip(method.shared_parameters.items(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-5), name


def test_asymmetric_switches_follow_the_dense_embedding() -> None:
    method = make("asymmetric")
    losses = step(method)
    images, labels = batch()
    with torch.no_grad():
        wide, small = (method.network(images, c, normalise=False) for c in (1.0, 0.3))
        assert losses["0.3"] == pytest.approx(float(contrastive(small, wide, labels)), abs=1e-5)
        assert losses["1"] == pytest.approx(float(method.loss(wide, labels)), abs=1e-5)


def test_sfsc_weighs_a_network_less_the_more_uncertain_it_is() -> None:
    logits = torch.randn(8, CLASSES, generator=torch.Generator().manual_seed(0))
    sharper = [3 * logits, 2 * logits, logits, 0.1 * logits - 3]
    unknown = [float(uncertainty(scaled).mean()) for scaled in sharper]
    assert unknown == sorted(unknown) and unknown[0] > 0 and unknown[-1] <= 1
    weights = [float(relative_certainty(scaled, sharper[0])) for scaled in sharper]
    assert weights[0] == pytest.approx(1.0) and weights == sorted(weights, reverse=True) and weights[-1] < 0.5
    assert uncertainty(torch.full((1, CLASSES), 1e4)).isfinite().all()


def test_sfsc_loss_counts_by_its_weight() -> None:
    method = make("sfsc")
    losses = step(method)
    images, labels = batch()
    with torch.no_grad():
        wide, small = (method.loss.logits(method.network(images, c, normalise=False)) for c in (1.0, 0.3))
        expected = relative_certainty(small, wide) * evidential_loss(small, labels)
    assert losses["0.3"] == pytest.approx(float(expected), abs=1e-5)


def test_sspl_uses_no_label_and_leaves_the_dense_network_alone() -> None:
    method = make("sspl")
    teacher = {name: tensor.clone() for name, tensor in method.teacher.state_dict().items()}
    step(method)
    first = gradients(method)
    step(method, labels=torch.zeros(6, dtype=torch.long))
    assert all(torch.equal(gradient, first[name]) for name, gradient in gradients(method).items())
    assert all(torch.equal(tensor, teacher[name]) for name, tensor in method.teacher.state_dict().items())
    assert not any(parameter.requires_grad for parameter in method.teacher.parameters())


def test_sspl_is_satisfied_by_the_dense_network_itself() -> None:
    base = Members([dense()])
    method = SSPL(Members([base.subnetwork(1.0)], base), subspaces=4, codewords=3)
    method.prepare([batch()[0]])
    method.eval()
    assert step(method)["1"] == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(PrunNetError, match="existing family"):
        SSPL(base)
    with pytest.raises(PrunNetError, match="16 dimensions cannot be cut into 3"):
        SSPL(Members([base.subnetwork(1.0)], base), subspaces=3)


def test_anchors_are_the_centres_of_clusters() -> None:
    centres = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    generator = torch.Generator().manual_seed(0)
    vectors = (centres[:, None] + 0.1 * torch.randn(3, 40, 2, generator=generator)).flatten(0, 1)
    anchors = k_means(vectors, 3)
    assert len(anchors.unique(dim=0)) == 3
    start = k_means(vectors, 3, iterations=0)
    assert all((vectors == vector).all(1).any() for vector in start)  # it starts from some of the vectors …
    error, before = (torch.cdist(vectors, some).min(1).values.square().mean() for some in (anchors, start))
    assert error < 0.99 * before  # … and gets nearer to all of them
    nearest = torch.cdist(vectors, anchors).argmin(1)
    for cluster in nearest.unique():
        assert torch.allclose(anchors[cluster], vectors[nearest == cluster].mean(0), atol=1e-5)
    with pytest.raises(PrunNetError, match="too few for 200 anchors"):
        k_means(vectors, 200)


def test_the_old_classifier_has_a_say_and_never_changes() -> None:
    old = nn.Linear(16, 3)
    loss = BackwardCompatible(CrossEntropy(16, CLASSES), old, [2, 0, -1, -1, 1])
    embedding = torch.randn(4, 16, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 4])
    expected = loss.loss(embedding, labels) + F.cross_entropy(old(embedding[[0, 1, 3]]), torch.tensor([2, 0, 1]))
    assert torch.allclose(loss(embedding, labels), expected)
    loss(embedding, labels).backward()
    learning = [name for name, parameter in loss.named_parameters() if parameter.requires_grad]
    assert learning == ["loss.classifier.weight", "loss.classifier.bias"]
    assert loss.old.old.weight.grad is None and embedding.grad is not None
    unknown = torch.tensor([2, 3, 2, 3])
    assert torch.equal(loss(embedding, unknown), loss.loss(embedding, unknown))
    with pytest.raises(PrunNetError, match="none of the training classes"):
        BackwardCompatible(CrossEntropy(16, CLASSES), old, [-1] * CLASSES)


def test_a_whole_family_can_be_compatible_with_an_old_classifier() -> None:
    net = prunnet.convert(prunnet.create_backbone("resnet18", **BACKBONES["resnet18"]), 16)
    net.preprocessing = prunnet.Preprocessing((3, 32, 32))
    method = PrunNet(net, CLASSES, PrunNetOptions(capacities=FixedCapacities(CAPACITIES), integrator=Sum())).train()
    plain = step(method)
    method.hear(nn.Linear(16, CLASSES), range(CLASSES))
    compatible = step(method)
    assert all(compatible[name] > plain[name] for name in ("1", "0.6", "0.3"))
    assert method.classifier is method.loss.loss.classifier


def test_new_members_beside_a_family_learn_from_its_classifier_alone() -> None:
    made, old = make("independent"), nn.Linear(16, CLASSES)
    made.hear(old, range(CLASSES))
    images, labels = batch()
    for (name, loss), member in zip(made.losses(images, labels), made.members.by_capacity.values(), strict=True):
        assert torch.allclose(loss, F.cross_entropy(old(member(images, normalise=False)), labels)), name
    assert not [parameter for parameter in made.classifiers.parameters() if parameter.requires_grad]


@pytest.mark.parametrize("method", ["joint", "switchnet"])
def test_the_old_classifier_is_heard_in_every_loss(method: str) -> None:
    made = make(method)
    plain = step(made)
    made.hear(nn.Linear(16, CLASSES), range(CLASSES))
    compatible = step(made)
    assert all(compatible[name] > plain[name] for name in plain)


def test_score_maps_are_not_nested() -> None:
    backbone = prunnet.create_backbone("resnet18", **BACKBONES["resnet18"])
    network = prunnet.convert(backbone, 16, selection=prunnet.ScoreMaps(CAPACITIES))
    large, small = network.masks_at(CAPACITIES)
    assert any((small[name] & ~large[name]).any() for name in small)
