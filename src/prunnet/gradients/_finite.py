from collections.abc import Mapping

import torch
from torch import Tensor

from prunnet.errors import GradientError

ADVICE = "lower the learning rate or the loss scale, or skip the batch"


def check_finite(gradients: Mapping[str, Tensor]) -> None:
    """Name the first gradient that is not finite: for those that no integrator looks at. The host waits once."""
    if not gradients:
        return
    largest = torch.stack([torch.linalg.vector_norm(gradient, ord=torch.inf) for gradient in gradients.values()])
    for name, finite in zip(gradients, largest.isfinite().tolist(), strict=True):
        if not finite:
            raise GradientError(f"the gradient of {name!r} is not finite: {ADVICE}")
