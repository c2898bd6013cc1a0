"""Numbers at the edge: scale, type, layout, and what is not a number."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from prunnet.errors import GradientError
from prunnet.gradients import ConflictAware, Direct, Integrator, Mean, Pareto, PCGrad, Sum

INTEGRATORS = [ConflictAware(), ConflictAware(rule="released"), Direct(), PCGrad(), Sum(), Mean(), Pareto()]
SCALES = [0.0, 1e-38, 1e-30, 1e-12, 1.0, 1e12, 1e30]
every_integrator = pytest.mark.parametrize("integrator", INTEGRATORS, ids=repr)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def conflicting(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed))


mixtures_of_scales = st.lists(st.lists(st.sampled_from(SCALES), min_size=3, max_size=3), min_size=4, max_size=4)
"""By filter and by pass."""


@every_integrator
@settings(deadline=None, max_examples=50)
@given(scales=mixtures_of_scales, seed=st.integers(0, 1000))
def test_any_mixture_of_scales_is_as_exact_as_in_float64(
    integrator: Integrator, scales: list[list[float]], seed: int
) -> None:
    gradients = conflicting(3, 4, 2, 3, 3, seed=seed) * torch.tensor(scales).T[:, :, None, None, None]
    integrated = integrator(gradients, generator=seeded())
    exact = integrator(gradients.double(), generator=seeded())
    norms = gradients.double().flatten(2).norm(dim=2).sum(0)
    scale = norms[:, None, None, None] if integrator.granularity == "filter" else norms.sum()
    assert ((integrated - exact).abs() <= 1e-5 * scale).all()


@every_integrator
@settings(deadline=None, max_examples=50)
@given(scales=mixtures_of_scales, seed=st.integers(0, 1000))
def test_opposite_gradients_of_any_scale_give_a_result_within_bounds(
    integrator: Integrator, scales: list[list[float]], seed: int
) -> None:
    gradients = conflicting(3, 4, 2, 3, 3, seed=seed)
    gradients[1] = -gradients[0]
    gradients *= torch.tensor(scales).T[:, :, None, None, None]
    integrated = integrator(gradients, generator=seeded())
    assert integrated.double().norm() <= 3 * gradients.double().flatten(1).norm(dim=1).sum()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@every_integrator
def test_tiny_and_huge_gradients_keep_their_direction(integrator: Integrator, scale: float) -> None:
    gradients = conflicting(5, 6, 3, 3, 3)
    expected = integrator(gradients, generator=seeded())
    integrated = integrator(scale * gradients, generator=seeded())
    torch.testing.assert_close(integrated / scale, expected, rtol=1e-4, atol=1e-5)


def test_one_tiny_filter_among_others_keeps_its_direction() -> None:
    gradients = conflicting(5, 6, 3, 3, 3)
    expected = ConflictAware()(gradients, generator=seeded())
    gradients[:, 2] *= 1e-30
    gradients[:, 4] *= 1e30
    integrated = ConflictAware()(gradients, generator=seeded())
    torch.testing.assert_close(integrated[2] * 1e30, expected[2], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(integrated[4] * 1e-30, expected[4], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(integrated[[0, 1, 3, 5]], expected[[0, 1, 3, 5]])


@every_integrator
def test_gradients_that_vanish_give_zero(integrator: Integrator) -> None:
    assert not integrator(torch.zeros(4, 3, 2, 3, 3)).any()


@pytest.mark.parametrize("rule", ["algorithm", "released"])
def test_opposite_gradients_cancel(rule: str) -> None:
    gradient = conflicting(6, 2, 3, 3)
    integrated = ConflictAware(rule=rule)(torch.stack([gradient, -0.3 * gradient]))
    assert integrated.abs().max() < 1e-6


def test_what_opposite_gradients_leave_has_no_weight() -> None:
    opposed, other = conflicting(6, 2, 3, 3), conflicting(6, 2, 3, 3, seed=1)
    opposed[:, 0], other[:, 1] = 0, 0
    integrated = ConflictAware()(torch.stack([opposed, -0.3 * opposed, other]))
    torch.testing.assert_close(integrated, 3 * other)


@settings(deadline=None)
@given(st.lists(st.floats(-10, 10, width=32, allow_subnormal=False), min_size=2, max_size=6))
def test_filters_with_one_weight_only_agree_or_oppose(values: list[float]) -> None:
    """A gradient that meets an opponent vanishes, and with it its γ: the result is what all agree on, or nothing."""
    integrated = ConflictAware()(torch.tensor(values).view(-1, 1, 1, 1, 1)).item()
    agreed = min(values) >= 0 or max(values) <= 0
    assert integrated == pytest.approx(sum(values) if agreed else 0, rel=1e-5, abs=1e-5)


def test_a_gradient_that_vanishes_conflicts_with_nothing() -> None:
    gradients = conflicting(3, 4, 2, 3, 3).abs()
    gradients[1] = 0
    torch.testing.assert_close(ConflictAware()(gradients), gradients.sum(0))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@every_integrator
def test_what_is_not_finite_is_named(integrator: Integrator, dtype: torch.dtype, value: float) -> None:
    layers = {"stem": conflicting(3, 4, 2, 3, 3).to(dtype), "blocks.0.fc": conflicting(3, 5, 4).to(dtype)}
    layers["stem"][:, 0] = 0
    layers["blocks.0.fc"][2, 3, 1] = value
    with pytest.raises(GradientError, match=r"layer 'blocks\.0\.fc' in pass 2 .* is not finite"):
        integrator.integrate(layers)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@every_integrator
def test_half_precision_is_summed_in_float32(integrator: Integrator, dtype: torch.dtype) -> None:
    gradients = conflicting(5, 4, 64, 3, 3).to(dtype)
    integrated = integrator(gradients, generator=seeded())
    assert integrated.dtype == dtype
    assert integrated.equal(integrator(gradients.float(), generator=seeded()).to(dtype))


@every_integrator
def test_autocast_outside_makes_no_difference(integrator: Integrator) -> None:
    gradients = conflicting(5, 4, 16, 3, 3)
    expected = integrator(gradients, generator=seeded())
    with torch.autocast("cpu", torch.bfloat16):
        assert integrator(gradients, generator=seeded()).equal(expected)


def test_the_matmul_precision_of_the_process_is_given_back() -> None:
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        Sum()(conflicting(2, 3))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@every_integrator
def test_memory_layout_makes_no_difference(integrator: Integrator) -> None:
    gradients = conflicting(5, 4, 8, 3, 3)
    channels_last = gradients.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
    torch.testing.assert_close(integrator(channels_last, generator=seeded()), integrator(gradients, generator=seeded()))
