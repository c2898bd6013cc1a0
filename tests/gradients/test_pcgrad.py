import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prunnet.gradients import PCGrad

torchjd = pytest.importorskip("torchjd.aggregation")


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(2, 40), st.floats(0, 1.5))
def test_equals_torchjd(seed: int, passes: int, size: int, agreement: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    shared = agreement * torch.randn(size, generator=generator, dtype=torch.float64)
    gradients = shared + torch.randn(passes, size, generator=generator, dtype=torch.float64)
    integrated = PCGrad()(gradients, generator=torch.Generator().manual_seed(seed))
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # torchjd shuffles with the global generator, pass by pass, as we do with ours
        expected = torchjd.PCGrad()(gradients)
    torch.testing.assert_close(integrated, expected, rtol=1e-9, atol=1e-9)
