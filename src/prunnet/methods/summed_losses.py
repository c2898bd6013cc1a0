"""What methods without gradient integration share: every loss is differentiated, and gradients add up."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from prunnet.methods.method import Method


class SummedLosses(Method):
    """A method says what its losses are; each is differentiated as soon as it is known, to save memory."""

    def __init__(self, autocast: torch.dtype | None = None) -> None:
        super().__init__()
        self.autocast = autocast

    @abstractmethod
    def losses(self, images: Tensor, labels: Tensor) -> Iterator[tuple[str, Tensor]]:
        """The losses of a batch, each with the name of its pass."""

    def begin(self, step: int) -> None:  # noqa: ARG002
        self.zero_grad()

    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        passes = self.losses(images, labels)
        while True:
            precision = nullcontext() if self.autocast is None else torch.autocast(images.device.type, self.autocast)
            with precision:
                name, loss = next(passes, ("", None))
            if loss is None:
                return found
            (loss * share).backward()  # type: ignore[no-untyped-call]
            found[name] = loss.detach()

    def gradients(self) -> Iterator[Tensor]:
        return (parameter.grad for parameter in self.parameters() if parameter.grad is not None)

    def finish(self) -> None:
        """The gradients are where they belong already."""
