import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prunnet.errors import GradientError, MissingExtraError
from prunnet.gradients import Pareto

torchjd = pytest.importorskip("torchjd.aggregation")


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([1e-20, 1.0, 1e20]))
def test_equals_torchjd(seed: int, passes: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    gradients = torch.randn(passes, 30, generator=generator, dtype=torch.float64) + 0.3
    expected = torchjd.MGDA()(gradients)
    torch.testing.assert_close(Pareto()(scale * gradients) / scale, expected, rtol=1e-7, atol=1e-9)


@settings(deadline=None)
@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(-0.95, 0.95))
def test_two_gradients_in_closed_form(first: float, second: float, cosine: float) -> None:
    gradients = torch.tensor([[first, 0], [second * cosine, second * (1 - cosine**2) ** 0.5]], dtype=torch.float64)
    difference = gradients[1] - gradients[0]
    share = (gradients[1] @ difference / difference.square().sum()).clamp(0, 1)
    expected = share * gradients[0] + (1 - share) * gradients[1]
    torch.testing.assert_close(Pareto()(gradients), expected, rtol=0, atol=1e-2 * gradients.norm().item())


def test_layers_are_solved_one_by_one() -> None:
    generator = torch.Generator().manual_seed(0)
    layers = {name: torch.randn(3, 4, 2, 3, 3, generator=generator, dtype=torch.float64) for name in ("a", "b")}
    integrated = Pareto(granularity="layer").integrate(layers).gradients
    for name, gradients in layers.items():
        torch.testing.assert_close(integrated[name].flatten(), torchjd.MGDA()(gradients.flatten(1)))


@pytest.mark.parametrize("granularity", ["filter", "row"])
def test_refuses_to_solve_every_filter(granularity: str) -> None:
    with pytest.raises(GradientError, match=f"layer, network; found '{granularity}'"):
        Pareto(granularity=granularity)


def test_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchjd.aggregation", None)
    with pytest.raises(MissingExtraError, match=r"Pareto integration needs torchjd: pip install 'prunnet\[torchjd\]'"):
        Pareto()
