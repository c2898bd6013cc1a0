"""Gradients seen through their inner products.

Every integrator returns a linear combination of the m gradients it is given, and finds the coefficients from their
inner products alone. So the gradients are read twice, once for the Gram matrices and once for the combination, and
whatever happens in between happens to `[m, m]` matrices, those of all filters of all layers at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from prunnet.errors import GradientError

ADVICE = "lower the learning rate or the loss scale, or skip the batch"

LEAST_SAFE_SQUARED_NORM = {
    # From here to the largest number, no square that matters underflows and no quotient of two norms overflows.
    torch.float32: 1e-24,
    torch.float64: 0.0,
}


class StackedGradients:
    """The gradients `[m, *shape]` of one weight, as `[m, R, k]`: a row per output filter or neuron, one for a vector.

    Inner products are summed in float32, or in float64 where the gradients are.
    """

    def __init__(self, name: str, gradients: Tensor) -> None:
        self.name = name
        self.shape = gradients.shape[1:]
        self.input_dtype = gradients.dtype
        self.dtype = torch.promote_types(gradients.dtype, torch.float32)
        self.rows = gradients.reshape(gradients.shape[0], self.shape[0] if len(self.shape) > 1 else 1, -1)
        self.gramians = _gramians(self.rows, self.dtype)
        """`[R, m, m]`, in float64."""
        self._widened: Tensor | None = None

    def widen(self, rows: Tensor) -> None:
        """Take the rows with these indices in float64, where the square of any float32 has room."""
        self._widened = rows
        self.gramians[rows] = _gramians(self.rows[:, rows], torch.float64)

    def combine(self, weights: Tensor) -> Tensor:
        """The combination, of the weight's shape, with coefficients `[R, m]`."""
        combined = _combine(self.rows, weights, self.dtype)
        if self._widened is not None:
            widened = _combine(self.rows[:, self._widened], weights[self._widened], torch.float64)
            combined[self._widened] = widened.to(self.dtype)
        return combined.view(self.shape).to(self.input_dtype)


def unsafe_squared_norms(gramians: Tensor, dtype: torch.dtype) -> Tensor:
    """Which Gram matrices `[B, m, m]`, summed in `dtype`, hold a squared norm that is too small or not finite."""
    squared_norms = gramians.diagonal(dim1=1, dim2=2)
    return ~((squared_norms >= LEAST_SAFE_SQUARED_NORM[dtype]) & squared_norms.isfinite()).all(1)


def require_finite(stacks: Sequence[StackedGradients]) -> None:
    """Name the first layer and pass whose gradient is not finite."""
    finite = torch.stack([stack.gramians.diagonal(dim1=1, dim2=2).isfinite().all(0) for stack in stacks]).cpu()
    for stack, passes in zip(stacks, finite, strict=True):
        if not passes.all():
            raise GradientError(
                f"the gradient of layer {stack.name!r} in pass {passes.int().argmin()} (0 is the dense network) is not "
                f"finite: {ADVICE}"
            )


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Products in the type asked for, whatever autocast and TensorFloat-32 are set to outside."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(precision)


def _gramians(rows: Tensor, dtype: torch.dtype) -> Tensor:
    vectors = rows.to(dtype).transpose(0, 1)
    return torch.bmm(vectors, vectors.mT).double()


def _combine(rows: Tensor, weights: Tensor, dtype: torch.dtype) -> Tensor:
    vectors = rows.to(dtype).transpose(0, 1)
    return torch.bmm(weights.to(dtype).unsqueeze(1), vectors).squeeze(1)


def check_finite(gradients: Mapping[str, Tensor]) -> None:
    """Name the first gradient that is not finite: for those that no integrator looks at. The host waits once."""
    if not gradients:
        return
    largest = torch.stack([torch.linalg.vector_norm(gradient, ord=torch.inf) for gradient in gradients.values()])
    for name, finite in zip(gradients, largest.isfinite().tolist(), strict=True):
        if not finite:
            raise GradientError(f"the gradient of {name!r} is not finite: {ADVICE}")
