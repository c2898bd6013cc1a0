"""Where the gradients of the N+1 passes land: one buffer, a row per pass."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class GradientStack:
    """Gradients of m passes with respect to named tensors, in one preallocated `[m, values]` buffer."""

    def __init__(self, passes: int, tensors: Mapping[str, Tensor]) -> None:
        reference = next(iter(tensors.values()))
        sizes = [tensor.numel() for tensor in tensors.values()]
        self.buffer = torch.empty(passes, sum(sizes), dtype=reference.dtype, device=reference.device)
        parts = self.buffer.split_with_sizes(sizes, dim=1)
        self.layers = {
            name: part.view(passes, *tensor.shape) for (name, tensor), part in zip(tensors.items(), parts, strict=True)
        }
        """`[m, *shape]` of each tensor: what an integrator takes."""

    @classmethod
    def reuse(cls, stack: "GradientStack | None", passes: int, tensors: Mapping[str, Tensor]) -> "GradientStack":
        """`stack`, if it serves these tensors still, or a new one."""
        return stack if stack is not None and stack.matches(passes, tensors) else cls(passes, tensors)

    def matches(self, passes: int, tensors: Mapping[str, Tensor]) -> bool:
        """Whether this buffer serves these tensors still."""
        reference = next(iter(tensors.values()))
        return (
            len(self.buffer) == passes
            and self.layers.keys() == tensors.keys()
            and (self.buffer.dtype, self.buffer.device) == (reference.dtype, reference.device)
        )

    def write(
        self, row: int, gradients: Mapping[str, Tensor], masks: Mapping[str, Tensor] | None, *, add: bool
    ) -> None:
        """Put one pass's gradients into `row`, E·r(s) where `masks` are given; `add` to earlier micro-batches."""
        for name, gradient in gradients.items():
            target = self.layers[name][row]
            if add:
                target.add_(gradient if masks is None else gradient * masks[name])
            elif masks is None:
                target.copy_(gradient)
            else:
                torch.mul(gradient, masks[name], out=target)


def assign(parameters: Mapping[str, nn.Parameter], gradients: Mapping[str, Tensor], step_size: float = 1.0) -> None:
    """Give every parameter its gradient, multiplied in place by `step_size`."""
    for name, parameter in parameters.items():
        gradient = gradients[name]
        parameter.grad = gradient if step_size == 1.0 else gradient.mul_(step_size)
