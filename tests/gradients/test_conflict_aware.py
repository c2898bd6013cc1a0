import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from prunnet.errors import GradientError
from prunnet.gradients import Blocks, ConflictAware, Direct, Mean, PCGrad

SHAPES = [(3, 4, 2, 2), (4, 1, 3, 3), (2, 6, 5), (5, 7), (9,)]
GRANULARITIES = ["filter", "row", "layer", "network"]
seeds = st.integers(0, 2**32 - 1)
passes = st.integers(2, 6)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def draw_order(m: int, seed: int) -> list[list[int]]:
    generator = seeded(seed)
    return [torch.randperm(m, generator=generator).tolist() for _ in range(m)]


def draw_gradients(m: int, shape: tuple[int, ...], seed: int, agreement: float) -> Tensor:
    """Gradients that conflict the more, the lower their agreement."""
    generator = seeded(seed)
    shared = torch.randn(shape, generator=generator, dtype=torch.float64)
    return agreement * shared + torch.randn(m, *shape, generator=generator, dtype=torch.float64)


def split(gradients: Tensor, granularity: str) -> list[Tensor]:
    """The blocks of the gradients [m, *shape] of one layer, as views."""
    dimensions = gradients.ndim - 1
    by_row = dimensions > 2 if granularity == "filter" else granularity == "row" and dimensions > 1
    return list(gradients.unbind(1)) if by_row else [gradients]


def algorithm_1(block: Tensor, order: list[list[int]], alpha: float) -> tuple[Tensor, float]:
    """One block, read off the paper; and the least share of its norm that a gradient has kept."""
    originals = list(block.flatten(1))
    projected = []
    for i, original in enumerate(originals):
        vector = original.clone()
        for j in order[i]:
            if j != i and vector @ originals[j] < 0:
                vector = vector - (vector @ originals[j]) / (originals[j] @ originals[j]) * originals[j]
        projected.append(vector)
    kept = min(float(vector.norm() / original.norm()) for vector, original in zip(projected, originals, strict=True))
    gammas = [
        max(torch.cosine_similarity(original, vector, dim=0).item(), 0) ** alpha
        for original, vector in zip(originals, projected, strict=True)
    ]
    total = sum(gamma * vector for gamma, vector in zip(gammas, projected, strict=True))
    return (len(originals) * total / sum(gammas)).view(block.shape[1:]), kept


@settings(deadline=None, max_examples=150)
@given(seeds, passes, st.sampled_from(SHAPES), st.sampled_from(GRANULARITIES), st.floats(0, 1.5), st.floats(0, 3))
def test_equals_the_loop_of_algorithm_1(
    seed: int, m: int, shape: tuple[int, ...], granularity: str, agreement: float, alpha: float
) -> None:
    gradients = draw_gradients(m, shape, seed, agreement)
    results = [algorithm_1(block, draw_order(m, seed), alpha) for block in split(gradients, granularity)]
    assume(min(kept for _, kept in results) > 0.1)  # the direction of what is left of nothing is rounding error
    expected = torch.stack([result for result, _ in results]).view(shape)
    scale = gradients.flatten(1).norm(dim=1).sum()
    integrator = ConflictAware(alpha, granularity=granularity)

    exact = integrator(gradients, generator=seeded(seed))
    assert (exact - expected).norm() <= 1e-12 * scale
    single = integrator(gradients.float(), generator=seeded(seed))
    assert (single - expected).norm() <= 1e-5 * scale


@settings(deadline=None)
@given(seeds, passes, st.floats(0, 3))
def test_without_conflict_it_is_m_times_the_mean(seed: int, m: int, alpha: float) -> None:
    gradients = torch.rand(m, 4, 3, 2, 2, generator=seeded(seed))
    integrated = ConflictAware(alpha)(gradients)
    torch.testing.assert_close(integrated, gradients.sum(0))
    torch.testing.assert_close(integrated, m * Mean()(gradients))


@settings(deadline=None)
@given(st.floats(90.1, 179.9), st.floats(1e-3, 1e3), st.floats(0, 3))
def test_two_conflicting_gradients_in_closed_form(degrees: float, ratio: float, alpha: float) -> None:
    """Both projections turn by the same angle, so γ cancels: g̃ = ĝ₀ + ĝ₁."""
    angle = math.radians(degrees)
    gradients = torch.tensor([[1, 0], [ratio * math.cos(angle), ratio * math.sin(angle)]], dtype=torch.float64)
    expected = torch.tensor(
        [math.sin(angle) ** 2, -math.sin(angle) * math.cos(angle) + ratio * math.sin(angle)], dtype=torch.float64
    )
    torch.testing.assert_close(ConflictAware(alpha)(gradients), expected, rtol=1e-9, atol=1e-12)


def test_the_gradient_that_was_turned_least_counts_most() -> None:
    gradients = torch.tensor([[1.0, 0.0, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    # ĝ₀ = (0.64, 0.48, 0) and ĝ₁ = (0, 0.8, 0), each at a cosine of 0.8 from where it was; ĝ₂ = g₂.
    gamma = 0.8**2
    expected = torch.tensor([0.64 * gamma, 1.28 * gamma, 1.0], dtype=torch.float64) * 3 / (1 + 2 * gamma)
    torch.testing.assert_close(ConflictAware(alpha=2)(gradients), expected)


@settings(deadline=None)
@given(seeds, st.floats(-2, 2), st.floats(0, 3))
def test_two_gradients_are_never_opposed(seed: int, agreement: float, alpha: float) -> None:
    gradients = draw_gradients(2, (3, 2, 2, 2), seed, agreement)
    integrated = ConflictAware(alpha)(gradients)
    norms = gradients.flatten(2).norm(dim=2)
    inner = (gradients * integrated).flatten(2).sum(2)
    assert (inner >= -1e-12 * norms * norms.sum(0)).all()


@settings(deadline=None)
@given(seeds, passes, st.floats(1e-6, 1e6), st.sampled_from([1, -1]), st.sampled_from(["algorithm", "released"]))
def test_scales_with_the_gradients(seed: int, m: int, factor: float, sign: int, rule: str) -> None:
    gradients = draw_gradients(m, (4, 3, 3, 3), seed, agreement=0.3)
    integrator = ConflictAware(rule=rule)
    torch.testing.assert_close(
        integrator(sign * factor * gradients, generator=seeded(seed)),
        sign * factor * integrator(gradients, generator=seeded(seed)),
        rtol=1e-7,
        atol=1e-10 * factor,
    )


@settings(deadline=None)
@given(seeds, passes, st.sampled_from(["algorithm", "released"]))
def test_permuting_gradients_and_order_alike_changes_nothing(seed: int, m: int, rule: str) -> None:
    gradients = draw_gradients(m, (4, 20), seed, agreement=0.2).transpose(0, 1)
    order = torch.tensor(draw_order(m, seed))
    if rule == "released":
        order = order[:1].expand(m, m)
    renaming = torch.randperm(m, generator=seeded(seed))
    rounding = torch.full((4,), torch.finfo(torch.float64).eps)

    def integrate(vectors: Tensor, order: Tensor) -> Tensor:
        weights = ConflictAware(rule=rule).weights(Blocks(vectors @ vectors.mT, rounding, (4,)), order)
        return (weights.unsqueeze(1) @ vectors).squeeze(1)

    renamed = integrate(gradients[:, renaming], renaming.argsort()[order[renaming]])
    torch.testing.assert_close(renamed, integrate(gradients, order), rtol=1e-9, atol=1e-9)


def test_a_projection_that_ends_up_opposing_its_gradient_does_not_count() -> None:
    angles = torch.tensor([0.0, 170.0, 190.0], dtype=torch.float64).deg2rad()
    gradients = torch.stack([angles.cos(), angles.sin()], dim=1)
    block = Blocks((gradients @ gradients.T).unsqueeze(0), torch.tensor([1e-16]), (1,))
    order = torch.tensor([[0, 1, 2], [1, 2, 0], [2, 1, 0]])
    # Off g₁, g₀ turns from 0° to 80°; off g₂, from there to 100°. The others end at ±90° and cancel each other.
    integrated = (ConflictAware().weights(block, order) @ gradients).squeeze(0)
    torch.testing.assert_close(integrated, torch.zeros(2, dtype=torch.float64), rtol=0, atol=1e-12)


@settings(deadline=None)
@given(seeds, passes, st.sampled_from(GRANULARITIES))
def test_alpha_zero_is_direct_integration_and_per_block_gradient_surgery(seed: int, m: int, granularity: str) -> None:
    gradients = draw_gradients(m, (4, 3, 3, 3), seed, agreement=0.2)
    direct = Direct(granularity=granularity)(gradients, generator=seeded(seed))
    for same in (ConflictAware(alpha=0, granularity=granularity), PCGrad(granularity=granularity)):
        torch.testing.assert_close(same(gradients, generator=seeded(seed)), direct)


@settings(deadline=None)
@given(seeds, passes, st.sampled_from(SHAPES), st.sampled_from(["filter", "layer"]), st.floats(0, 1.5))
def test_released_rule_equals_its_loop(
    seed: int, m: int, shape: tuple[int, ...], granularity: str, agreement: float
) -> None:
    gradients = draw_gradients(m, shape, seed, agreement)
    projected = gradients.clone()
    for block, target in zip(split(gradients, granularity), split(projected, granularity), strict=True):
        for i in range(m):
            for j in draw_order(m, seed)[0]:
                inner = (block[i] * block[j]).sum()
                if inner < 0:
                    target[i] = block[i] - inner / block[j].square().sum() * block[j]
    cosines = torch.cosine_similarity(gradients.flatten(1), projected.flatten(1))
    gammas = ((cosines + 1) / 2).sqrt()
    expected = m * torch.tensordot(gammas / gammas.sum(), projected, dims=1)

    integrated = ConflictAware(rule="released", granularity=granularity)(gradients, generator=seeded(seed))
    torch.testing.assert_close(integrated, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": -1}, "alpha .* found -1"),
        ({"alpha": math.nan}, "alpha .* found nan"),
        ({"rule": "paper"}, "rule .* algorithm, released; found 'paper'"),
        ({"granularity": "kernel"}, "granularity .* filter, row, layer, network; found 'kernel'"),
    ],
)
def test_refuses_what_makes_no_sense(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(GradientError, match=message):
        ConflictAware(**arguments)
