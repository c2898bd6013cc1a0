"""What methods without gradient integration share: every loss is differentiated, and gradients add up."""

from abc import abstractmethod
from collections.abc import Iterator

from torch import Tensor

from prunnet.gradients import check_finite
from prunnet.methods.method import Method, Step, gradients_of


class SummedLosses(Method):
    """A method says what its losses are; each is differentiated as soon as it is known, to save memory."""

    @abstractmethod
    def losses(self, images: Tensor, labels: Tensor) -> Iterator[tuple[str, Tensor]]:
        """The losses of a batch, each with the name of its pass."""

    def step(self, number: int, *, scale: float = 1.0) -> "SummedStep":  # noqa: ARG002
        self.zero_grad()
        return SummedStep(self, scale)


class SummedStep(Step):
    """Gradients add up where they belong."""

    def __init__(self, method: SummedLosses, scale: float) -> None:
        super().__init__(scale)
        self.method = method

    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        losses: dict[str, Tensor] = {}
        passes = self.method.losses(images, labels)
        while True:
            with self.method.precision(images):
                name, loss = next(passes, ("", None))
            if loss is None:
                return losses
            (loss * (share * self.scale)).backward()  # type: ignore[no-untyped-call]
            losses[name] = loss.detach()

    def gradients(self) -> Iterator[Tensor]:
        return iter(gradients_of(self.method).values())

    def _finish(self) -> None:
        """The gradients are where they belong already."""
        check_finite(gradients_of(self.method))
