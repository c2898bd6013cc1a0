"""The call that all integrators share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from prunnet.errors import GradientError

from ._blocks import Blocks, Granularity, Partition, check_granularity
from ._gram import StackedGradients, full_precision, require_finite, unsafe_squared_norms
from ._telemetry import Telemetry


@dataclass(frozen=True)
class Integration:
    """One gradient per layer, and what was seen on the way."""

    gradients: dict[str, Tensor]
    telemetry: Telemetry


class Integrator(ABC):
    """Turns the gradients of m passes, the dense network first, into one.

    A subclass says how: `weights` maps Gram matrices to the coefficients of a linear combination. What counts as one
    gradient vector is the `granularity`: each output `"filter"` of a convolution (linear layers whole), each `"row"`
    (linear layers too), each `"layer"`, or the `"network"`.
    """

    granularity: Granularity
    sums: ClassVar[bool] = True
    """Whether gradients without conflict come out as their sum, m times their mean."""

    def __post_init__(self) -> None:
        check_granularity(self.granularity)

    @abstractmethod
    def weights(self, blocks: Blocks, order: Tensor) -> Tensor:
        """The coefficients `[B, m]` of the gradients of each block.

        Row i of `order` `[m, m]` is the order in which pass i meets the others; an integrator may have no use for it.
        """

    def mean_factor(self, passes: int) -> float:
        """What makes the integrated gradient of that many `passes` a mean, so that learning rates compare."""
        return 1 / passes if self.sums else 1.0

    def __call__(self, gradients: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Integrate the stacked gradients `[m, *weight.shape]` of one weight."""
        return self.integrate({"weight": gradients}, generator=generator).gradients["weight"]

    def integrate(self, layers: Mapping[str, Tensor], *, generator: torch.Generator | None = None) -> Integration:
        """Integrate the stacked gradients `[m, *weight.shape]` of all layers at once.

        One order per pass is drawn for the whole call, from the CPU `generator`: ranks that share its state get the
        same result. The host waits for the device once, to learn whether all gradients are finite and of a size that
        float32 can square; a few times more if not.
        """
        _check(layers)
        passes = len(next(iter(layers.values())))
        order = torch.stack([torch.randperm(passes, generator=generator) for _ in range(passes)])
        shapes = [gradients.shape[1:] for gradients in layers.values()]
        partition = Partition.of(shapes, self.granularity)
        device = next(iter(layers.values())).device

        with full_precision(device):
            stacks = [StackedGradients(name, gradients) for name, gradients in layers.items()]
            gramians = partition.merge([stack.gramians for stack in stacks])
            unsafe = unsafe_squared_norms(gramians, stacks[0].dtype)
            if unsafe.any():
                for stack, mask in zip(stacks, partition.spread(unsafe.cpu()), strict=True):
                    if mask.any():
                        stack.widen(mask.nonzero().squeeze(1).to(device))
                require_finite(stacks)
                gramians = partition.merge([stack.gramians for stack in stacks])
            rounding = torch.where(unsafe, torch.finfo(torch.float64).eps, torch.finfo(stacks[0].dtype).eps)
            weights = self.weights(Blocks(gramians, rounding, partition.sizes), order.to(device))
            integrated = {
                stack.name: stack.combine(coefficients)
                for stack, coefficients in zip(stacks, partition.spread(weights), strict=True)
            }
        filters = Partition.of(shapes, "filter")
        telemetry = Telemetry(tuple(layers), [stack.gramians for stack in stacks], filters, gramians, weights)
        return Integration(integrated, telemetry)


def _check(layers: Mapping[str, Tensor]) -> None:
    if not layers:
        raise GradientError("there is no layer to integrate: give at least one stacked gradient")
    first = next(iter(layers.values()))
    for name, gradients in layers.items():
        if gradients.ndim < 2 or not gradients.numel() or not gradients.is_floating_point():
            raise GradientError(
                f"layer {name!r} needs a stacked gradient [passes, *weight.shape] of floating point; "
                f"found {gradients.dtype} of shape {list(gradients.shape)}"
            )
        for what in ("dtype", "device"):
            if getattr(gradients, what) != getattr(first, what):
                raise GradientError(
                    f"all layers need gradients of one {what}; "
                    f"layer {name!r} has {getattr(gradients, what)}, not {getattr(first, what)}"
                )
        if len(gradients) != len(first):
            raise GradientError(
                f"all layers need gradients of as many passes; layer {name!r} has {len(gradients)}, not {len(first)}"
            )
