"""The contract between a training method and the loop.

A method owns its networks and turns a batch into gradients; the loop owns data, optimiser, schedule, ranks and
checkpoints. One turn of the loop is

    step = method.step(number, scale=scale)
    for images, labels in micro_batches:
        losses = step.backward(images, labels, share)   # gradients add up in the step
    ranks.average(step.gradients())
    telemetry = step.finish()                            # every parameter now has its .grad
    optimiser.step()
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from prunnet.gradients import Telemetry
from prunnet.methods.bct import BackwardCompatible
from prunnet.network import Family

MethodName = Literal["prunnet", "dense", "independent", "joint", "switchnet", "sfsc", "sspl", "bct"]
"""As settings say it."""


@dataclass(frozen=True)
class StepTelemetry:
    """What was seen while the gradients of a step were integrated."""

    weights: Telemetry
    scores: Telemetry | None = None
    """Of the scores, where there are any that learn and that all passes share."""

    def facts(self, passes: Sequence[str]) -> dict[str, Any]:
        """Of the gradients of the weights, and under `scores` of those of the scores; `passes` names the rows."""
        facts = self.weights.facts(passes)
        return facts if self.scores is None else {**facts, "scores": self.scores.facts(passes)}


class Step(ABC):
    """One optimisation step: what was drawn for it, and the gradients that its micro-batches have added up to.

    They may lie in buffers of the method, which its next step overwrites.
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale
        """What every loss is multiplied with before it is differentiated."""

    @abstractmethod
    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        """Add the gradients of one micro-batch, weighted by its `share` of the batch; return the loss of each pass."""

    @abstractmethod
    def gradients(self) -> Iterator[Tensor]:
        """What ranks must average before `finish`. Until then it carries the scale of the loss."""

    @property
    def stacked_values(self) -> int:
        """How many values the gradients of single passes take, beside those in `.grad`."""
        return 0

    @torch.no_grad()
    def finish(self) -> StepTelemetry | None:
        """Leave one gradient in `.grad` of every parameter that is to be updated, of its true size.

        A `GradientError` names one that is not finite; nothing must be updated then.
        """
        if self.scale != 1.0:
            for gradient in self.gradients():
                gradient.div_(self.scale)
        return self._finish()

    @abstractmethod
    def _finish(self) -> StepTelemetry | None:
        """The same, of gradients that carry no scale."""


class Method(nn.Module, ABC):
    """A module, so that its parameters, buffers, device and training mode are handled like those of any other.

    autocast: the type that passes are computed in, where it is not that of the parameters.
    """

    def __init__(self, autocast: torch.dtype | None = None) -> None:
        super().__init__()
        self.autocast = autocast

    def precision(self, images: Tensor) -> "torch.autocast | nullcontext[None]":
        """What the passes on `images` are computed under."""
        return nullcontext() if self.autocast is None else torch.autocast(images.device.type, self.autocast)

    @property
    @abstractmethod
    def family(self) -> Family:
        """What is being trained."""

    def prepare(self, batches: Iterable[Tensor]) -> None:
        """Look at the training images once, before the first step; most methods need not."""

    @property
    def classifier(self) -> nn.Linear | None:
        """The classifier of the training classes that the whole family shares, if there is one."""
        return getattr(getattr(self, "loss", None), "classifier", None)

    @property
    def connections(self) -> int:
        """How many connections have a score."""
        return 0

    def hear(self, old: nn.Linear, old_classes: Sequence[int]) -> None:
        """Let the classifier of an `old` family have a say in every loss; see `BackwardCompatible`."""
        self.register_module("loss", BackwardCompatible(self.get_submodule("loss"), old, old_classes))

    @abstractmethod
    def step(self, number: int, *, scale: float = 1.0) -> Step:
        """Optimisation step `number`: everything random is drawn here, alike on all ranks."""

    def norms_and_biases(self) -> set[nn.Parameter]:
        """Parameters with a weight decay of their own."""
        return {parameter for parameter in self.parameters() if parameter.ndim < 2}


def gradients_of(method: Method) -> dict[str, Tensor]:
    """What lies in `.grad`, by the name of the parameter."""
    return {name: parameter.grad for name, parameter in method.named_parameters() if parameter.grad is not None}


def generator_for(seed: int, step: int) -> torch.Generator:
    """What a method draws from, alike on all ranks."""
    return torch.Generator().manual_seed(_number(seed, step) % 2**63)


def seed_rank(seed: int, step: int, rank: int) -> None:
    """Give torch's own generator, which dropout draws from, a state that no other rank has."""
    torch.manual_seed(_number(seed, step) * 1_009 + rank)


def _number(seed: int, step: int) -> int:
    return seed * 1_000_003 + step
