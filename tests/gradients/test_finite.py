import pytest
import torch

from prunnet.errors import GradientError
from prunnet.gradients import check_finite


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_the_first_that_is_not_finite_is_named(value: float, dtype: torch.dtype) -> None:
    gradients = {
        name: torch.full((3, 40), torch.finfo(dtype).max, dtype=dtype) for name in ("stem", "head", "classifier")
    }
    check_finite(gradients)  # large is not infinite
    gradients["head"][1, 7] = gradients["classifier"][0, 0] = value
    with pytest.raises(GradientError, match="the gradient of 'head' is not finite"):
        check_finite(gradients)


def test_no_gradient_is_none_that_is_not_finite() -> None:
    check_finite({})
