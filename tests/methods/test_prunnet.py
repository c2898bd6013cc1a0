from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import prunnet
from prunnet.errors import CapacityError, GradientError, PrunNetError
from prunnet.gradients import ConflictAware, Mean, Sum
from prunnet.methods import AnyCapacities, Dense, FixedCapacities, PrunNet, PrunNetOptions
from prunnet.network.functional import embed_with

CLASSES = 5
TWO = PrunNetOptions(capacities=FixedCapacities((0.6, 0.3)), integrator=Sum(), normalise_step=False)


class Backbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.linear = nn.Linear(6, 7)

    def forward(self, images: Tensor) -> Tensor:
        return self.linear(torch.relu(self.norm(self.conv(images))).mean((2, 3)))


def make(
    options: PrunNetOptions = TWO,
    ranking: str = "magnitude",
    selection: prunnet.network.Selection | None = None,
    **arguments: object,
) -> PrunNet:
    torch.manual_seed(0)
    size = prunnet.Preprocessing((3, 8, 8))
    net = prunnet.convert(Backbone(), 4, preprocessing=size, ranking=ranking, selection=selection)
    return PrunNet(net.double(), CLASSES, options, **arguments).double().train()


def batch(count: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 3, 8, 8, generator=generator, dtype=torch.float64)
    return images, torch.randint(0, CLASSES, (count,), generator=generator)


def gradients_of(method: PrunNet, number: int = 0) -> dict[str, Tensor | None]:
    """One step's gradient of every parameter by name."""
    step = method.step(number)
    step.backward(*batch())
    step.finish()
    return {name: None if p.grad is None else p.grad.clone() for name, p in method.named_parameters()}


def pick(gradients: Mapping[str, Tensor | None], *parts: str) -> dict[str, Tensor | None]:
    return {name: gradient for name, gradient in gradients.items() if any(part in name for part in parts)}


def same(first: Mapping[str, Tensor | None], second: Mapping[str, Tensor | None], factor: float = 1.0) -> bool:
    return first.keys() == second.keys() and all(
        (a is None and b is None) or (a is not None and b is not None and torch.allclose(a * factor, b, atol=1e-12))
        for a, b in zip(first.values(), second.values(), strict=True)
    )


WEIGHTS = ("backbone.conv.weight", "backbone.linear.weight")
SCORES = ("scores.",)
SHARED = ("bias", "norm", "head", "loss")


class StraightThrough(torch.autograd.Function):
    """Eq. 2 as a layer: w·r(s) forwards; E·r(s) for the weight and w·E·r(s) for the score backwards."""

    @staticmethod
    def forward(context, weight, _importance, mask):
        context.save_for_backward(weight, mask)
        return weight * mask

    @staticmethod
    def backward(context, gradient):
        weight, mask = context.saved_tensors
        return gradient * mask, gradient * weight * mask, None


@pytest.mark.parametrize("ranking", ["magnitude", "signed"])
def test_equation_2_against_autograd_through_a_straight_through_layer(ranking: str) -> None:
    method, reference = make(ranking=ranking), make(ranking=ranking)
    gradients = gradients_of(method)

    net, (images, labels) = reference.network, batch()
    for capacity in (1.0, 0.6, 0.3):
        masks = net.masks(capacity)
        effective = {}
        for name, weight in net.weights.items():
            score = net.scores[name]
            importance = score.abs() if ranking == "magnitude" else score
            effective[name] = StraightThrough.apply(weight, importance, masks[name])
        statistics = {n: b.clone() for n, b in net.named_buffers()} if capacity < 1 else {}
        embedding = embed_with(net.backbone, net.head, images, weights=effective, statistics=statistics)
        reference.loss(embedding, labels).backward()
    expected = {name: p.grad for name, p in reference.named_parameters()}
    assert same(pick(gradients, *WEIGHTS), pick(expected, *WEIGHTS))
    assert same(pick(gradients, *SCORES), pick(expected, *SCORES))


def shared_gradients() -> list[dict[str, Tensor]]:
    """The gradient of each loss alone with respect to what every pass uses unpruned."""
    rows = []
    for capacity in (1.0, 0.6, 0.3):
        method = make()
        images, labels = batch()
        loss = method.loss(method.network(images, capacity, normalise=False), labels)
        parameters = {n: p for n, p in method.named_parameters() if any(x in n for x in SHARED)}
        rows.append(dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True)))
    return rows


def test_shared_parameters_get_the_gradient_that_was_asked_for() -> None:
    rows = shared_gradients()
    default = gradients_of(make())
    assert same(pick(default, *SHARED), rows[0])
    mean = gradients_of(make(replace(TWO, shared="mean")))
    assert same(pick(mean, *SHARED), {n: sum(r[n] for r in rows) / 3 for n in rows[0]})
    integrated = gradients_of(make(replace(TWO, shared="integrated")))
    assert same(pick(integrated, *SHARED), {n: sum(r[n] for r in rows) for n in rows[0]})
    for other in (mean, integrated):
        assert same(pick(other, *WEIGHTS, *SCORES), pick(default, *WEIGHTS, *SCORES))


def test_frozen_scores_and_frozen_weights_stop_just_these() -> None:
    default = gradients_of(make())
    frozen_scores = gradients_of(make(replace(TWO, frozen_scores=True)))
    assert all(g is None for g in pick(frozen_scores, *SCORES).values())
    assert same(pick(frozen_scores, *WEIGHTS, *SHARED), pick(default, *WEIGHTS, *SHARED))
    frozen_weights = gradients_of(make(replace(TWO, frozen_weights=True)))
    assert all(g is None for g in pick(frozen_weights, *WEIGHTS).values())
    assert same(pick(frozen_weights, *SCORES, *SHARED), pick(default, *SCORES, *SHARED))
    with pytest.raises(PrunNetError, match="nothing to learn"):
        make(replace(TWO, frozen_weights=True, frozen_scores=True))


@pytest.mark.parametrize("integrator", [Sum(), ConflictAware()])
def test_normalise_step_divides_out_the_number_of_passes(integrator) -> None:
    options = replace(TWO, integrator=integrator)
    summed, normalised = gradients_of(make(options)), gradients_of(make(replace(options, normalise_step=True)))
    assert same(pick(normalised, *WEIGHTS, *SCORES), pick(summed, *WEIGHTS, *SCORES), factor=3)
    assert same(pick(normalised, *SHARED), pick(summed, *SHARED))


def test_normalise_step_leaves_a_mean_alone() -> None:
    options = replace(TWO, integrator=Mean())
    assert same(gradients_of(make(options)), gradients_of(make(replace(options, normalise_step=True))))


def losses_of(options: PrunNetOptions) -> dict[str, float]:
    return {name: loss.item() for name, loss in make(options).step(0).backward(*batch()).items()}


def test_distillation_adds_the_divergence_from_the_dense_output() -> None:
    default, distilled = losses_of(TWO), losses_of(replace(TWO, distillation=2.0))
    method, (images, _) = make(), batch()
    logits = {c: method.loss.logits(method.network(images, c, normalise=False)) for c in (1.0, 0.3)}
    teacher, student = (F.softmax(logits[c], dim=1) for c in (1.0, 0.3))
    divergence = (teacher * (teacher / student).log()).sum(1).mean().item()
    assert distilled["1"] == default["1"]
    assert distilled["0.3"] == pytest.approx(default["0.3"] + 2 * divergence)


def test_contrastive_draws_subnetworks_to_dense_embeddings_of_their_class() -> None:
    default, contrastive = losses_of(TWO), losses_of(replace(TWO, loss="contrastive"))
    method, (images, labels) = make(), batch()
    dense, sub = (method.network(images, c) for c in (1.0, 0.3))
    log_probability = F.log_softmax(sub @ dense.T / 0.1, dim=1)
    expected = -torch.stack([log_probability[i, labels == labels[i]].mean() for i in range(len(labels))]).mean()
    assert contrastive["1"] == default["1"]
    assert contrastive["0.3"] == pytest.approx(expected.item())


@pytest.mark.parametrize("loss", ["arcface", "cosface"])
def test_margin_softmax_is_pytorch_metric_learnings(loss: str) -> None:
    from pytorch_metric_learning.losses import ArcFaceLoss, CosFaceLoss

    method, (images, labels) = make(replace(TWO, loss=loss)), batch()
    oracle = {"arcface": ArcFaceLoss, "cosface": CosFaceLoss}[loss](CLASSES, 4).double()
    oracle.load_state_dict(method.loss.loss.state_dict())
    expected = oracle(method.network(images, 0.3, normalise=False), labels)
    step = method.step(0)
    assert step.backward(images, labels)["0.3"].item() == pytest.approx(expected.item())
    step.finish()
    assert method.loss.loss.W.grad.abs().sum() > 0


def test_clip_passes_bounds_the_gradient_of_each_subnetwork() -> None:
    step = make(replace(TWO, clip_passes=1e-3)).step(0)
    step.backward(*batch())
    norms = step.weights.buffer.norm(dim=1)
    telemetry = step.finish().weights
    clipped = telemetry.gramians.sum(0).diagonal().sqrt()
    assert norms[1] > 1e-3 and clipped[0] == pytest.approx(norms[0].item())
    assert clipped[1:].tolist() == pytest.approx([1e-3, 1e-3])


def test_telemetry_tells_of_weights_and_scores() -> None:
    method = make(replace(TWO, integrator=ConflictAware()))
    step = method.step(0)
    step.backward(*batch())
    weights = {name: rows.clone() for name, rows in step.weights.layers.items()}
    telemetry = step.finish()
    for index, (name, rows) in enumerate(weights.items()):
        of_scores = rows * method.network.weights[name] * method.network.scores[name].sign()
        for seen, vectors in ((telemetry.weights, rows.flatten(1)), (telemetry.scores, of_scores.flatten(1))):
            torch.testing.assert_close(seen.gramians[index], (vectors @ vectors.T).detach())


def test_scores_that_are_not_integrated_have_no_telemetry() -> None:
    for method in (make(replace(TWO, frozen_scores=True)), make(selection=prunnet.ScoreMaps((0.6, 0.3)))):
        step = method.step(0)
        step.backward(*batch())
        assert step.finish().scores is None


@pytest.mark.parametrize("shared", ["dense", "integrated"])
def test_a_scaled_loss_changes_nothing_but_the_way(shared: str) -> None:
    """Passes are clipped, integrated and measured at their true size, exactly so in float64."""
    options = replace(TWO, integrator=ConflictAware(), clip_passes=0.1, shared=shared)
    gradients, gramians = [], []
    for scale in (1.0, 3e7):
        method = make(options)
        step = method.step(0, scale=scale)
        step.backward(*batch())
        gramians.append(step.finish().weights.gramians)
        gradients.append({name: p.grad for name, p in method.named_parameters()})
    assert gramians[0].sum(0).diagonal()[1:].tolist() == pytest.approx([0.01, 0.01])  # both were clipped
    torch.testing.assert_close(gramians[1], gramians[0], rtol=1e-10, atol=1e-12)
    assert same(gradients[0], gradients[1])


@pytest.mark.parametrize("name", ["backbone.norm.weight", "loss.classifier.bias"])
def test_a_shared_gradient_that_is_not_finite_is_named(name: str) -> None:
    step = make().step(0)
    step.backward(*batch())
    step.shared.layers[name][0, 0] = torch.nan
    with pytest.raises(GradientError, match=f"the gradient of '{name}' is not finite"):
        step.finish()


def test_score_maps_are_separate_and_each_belongs_to_one_pass() -> None:
    method = make(selection=prunnet.ScoreMaps((0.6, 0.3)))
    net = method.network
    small, large = net.masks(0.3)["conv.weight"], net.masks(0.6)["conv.weight"]
    assert (small & ~large).any(), "two random maps should not be nested"
    gradients_of(method)
    for capacity in (0.6, 0.3):
        score = net.selection.scores_at(net, capacity)["conv.weight"]
        assert score.grad[net.masks(capacity)["conv.weight"]].abs().sum() > 0
        assert not score.grad[~net.masks(capacity)["conv.weight"]].any()
    assert all(score.grad is None for score in net.scores.values())
    with pytest.raises(CapacityError, match=r"a score map for each of 100 %, 60 %, 30 %; found 50 %"):
        net.subnetwork(0.5)
    for other in (AnyCapacities(), FixedCapacities((0.5,))):
        with pytest.raises(PrunNetError, match="trained at just these capacities"):
            make(replace(TWO, capacities=other), selection=prunnet.ScoreMaps((0.6, 0.3)))


def test_micro_batches_add_up_to_the_batch() -> None:
    whole, parts = make(), make()
    for method in (whole, parts):
        for layer in (method.network.backbone.norm, method.network.head.norm):
            layer.eval()
    expected = gradients_of(whole)
    images, labels = batch()
    step = parts.step(0)
    step.backward(images[:4], labels[:4], 4 / 6)
    step.backward(images[4:], labels[4:], 2 / 6)
    step.finish()
    assert same({name: p.grad for name, p in parts.named_parameters()}, expected)


def test_batch_norm_statistics_move_with_the_dense_pass_alone() -> None:
    method, alone = make(), make()
    gradients_of(method)
    alone.network(batch()[0])
    for name, buffer in method.network.named_buffers():
        assert torch.equal(buffer, alone.network.get_buffer(name))


def test_gradients_are_what_ranks_must_average() -> None:
    """Halving everything before `finish` halves the result of an integrator that is linear in scale."""
    options = replace(TWO, integrator=ConflictAware(), shared="integrated")
    expected = gradients_of(make(options))
    method = make(options)
    step = method.step(0)
    step.backward(*batch())
    for tensor in step.gradients():
        tensor.mul_(0.5)
    step.finish()
    assert same(expected, {n: p.grad for n, p in method.named_parameters()}, factor=0.5)


def test_a_step_is_a_function_of_seed_and_step() -> None:
    options = replace(TWO, capacities=AnyCapacities(), integrator=ConflictAware())
    first, again = gradients_of(make(options), number=3), gradients_of(make(options), number=3)
    assert same(first, again)
    assert not same(pick(first, *WEIGHTS), pick(gradients_of(make(options), number=4), *WEIGHTS))
    assert not same(pick(first, *WEIGHTS), pick(gradients_of(make(options, seed=1), number=3), *WEIGHTS))


def test_steps_share_the_buffers_of_their_method_and_nothing_else() -> None:
    method = make(replace(TWO, capacities=AnyCapacities(), integrator=ConflictAware(), shared="integrated"))
    first, other, again = (gradients_of(method, number) for number in (3, 4, 3))
    assert same(first, again) and not same(first, other)
    steps = [method.step(number) for number in (3, 4)]
    assert steps[0].capacities != steps[1].capacities
    buffers = [[gradients.data_ptr() for gradients in step.gradients()] for step in steps]
    assert buffers[0] == buffers[1]


@pytest.mark.parametrize("distribution", ["log-uniform", "uniform"])
def test_any_draws_the_smallest_and_random_ones_above_it(distribution: str) -> None:
    capacities = AnyCapacities(0.05, random=3, distribution=distribution)
    draws = [capacities.draw(torch.Generator().manual_seed(seed)) for seed in range(400)]
    assert all(len(drawn) == 4 and drawn[-1] == 0.05 for drawn in draws)
    between = torch.tensor([drawn[:-1] for drawn in draws]).flatten()
    assert between.min() >= 0.05 and between.max() <= 1.0
    expected = 0.05**0.5 if distribution == "log-uniform" else 0.525
    assert between.median().item() == pytest.approx(expected, rel=0.1)
    assert capacities.reported == (0.8, 0.6, 0.4, 0.2, 0.1, 0.05)


def test_capacities_that_make_no_sense_are_refused() -> None:
    for wrong in ((), (1.0,), (0.0,)):
        with pytest.raises(CapacityError):
            FixedCapacities(wrong)
    with pytest.raises(CapacityError, match="below 1"):
        AnyCapacities(1.0)
    with pytest.raises(CapacityError, match="at least 0"):
        AnyCapacities(random=-1)
    with pytest.raises(PrunNetError, match="at least 2 classes"):
        PrunNet(make().network, 1)


def test_dense_trains_the_network_alone() -> None:
    net = make().network
    method = Dense(net, CLASSES).double().train()
    step = method.step(0)
    (loss,) = step.backward(*batch()).values()
    assert step.finish() is None and loss > 0
    assert all(score.grad is None for score in net.scores.values())
    assert all(weight.grad is not None for weight in net.weights.values())


def test_autocast_computes_in_half_precision_and_keeps_full_gradients() -> None:
    torch.manual_seed(0)
    net = prunnet.convert(Backbone(), 4, preprocessing=prunnet.Preprocessing((3, 8, 8)))
    images, labels = batch()
    method = PrunNet(net, CLASSES, TWO, autocast=torch.bfloat16).train()
    step = method.step(0)
    step.backward(images.float(), labels)
    step.finish()
    exact = PrunNet(net, CLASSES, TWO).train()
    exact.loss.load_state_dict(method.loss.state_dict())
    rough = net.weights["conv.weight"].grad.clone()
    step = exact.step(0)
    step.backward(images.float(), labels)
    step.finish()
    fine = net.weights["conv.weight"].grad
    assert rough.dtype == torch.float32
    assert not torch.equal(rough, fine)
    assert F.cosine_similarity(rough.flatten(), fine.flatten(), dim=0) > 0.98


@pytest.mark.parametrize(
    ("name", "options"),
    [
        # at timm's start the last norm of a residual block is zero, and the block learns nothing in the first step
        ("resnet18", {"zero_init_last": False}),
        ("resnet50", {"zero_init_last": False}),
        ("resnext50_32x4d", {"zero_init_last": False}),
        ("mobilenetv2_100", {}),
        ("vit_small_patch16_224", {"img_size": 32}),
    ],
)
def test_every_backbone_of_the_paper_takes_a_step(name: str, options: dict[str, object]) -> None:
    torch.manual_seed(0)
    size = 32
    backbone = prunnet.create_backbone(name, **options)
    net = prunnet.convert(backbone, 16, preprocessing=prunnet.Preprocessing((3, size, size)))
    method = PrunNet(net, CLASSES).train()
    optimiser = torch.optim.SGD(method.parameters(), lr=0.01)
    before = {n: p.detach().clone() for n, p in method.named_parameters()}
    step = method.step(0)
    step.backward(torch.randn(4, 3, size, size), torch.tensor([0, 1, 2, 3]))
    step.finish()
    optimiser.step()
    moved = [n for n, p in method.named_parameters() if not torch.equal(p, before[n])]
    for name in net.scores:
        assert f"network.backbone.{name}" in moved and f"network.scores.{name}" in moved
    assert all(p.isfinite().all() for p in method.parameters())
