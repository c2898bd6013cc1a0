"""Which subnetworks a step trains: the paper's fixed capacities, or fresh ones every step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from prunnet.errors import CapacityError
from prunnet.network.capacity import check_capacities, check_capacity

Distribution = Literal["log-uniform", "uniform"]

FOUR = (0.8, 0.6, 0.4, 0.2)
"""The capacities of the paper, where a list is needed and there is none."""


@dataclass(frozen=True)
class FixedCapacities:
    """The same N capacities at every step."""

    capacities: tuple[float, ...]

    def __init__(self, capacities: Sequence[float]) -> None:
        below_one = tuple(capacity for capacity in check_capacities(capacities) if capacity < 1.0)
        if not below_one:
            raise CapacityError("capacities must name at least one below 1, such as (0.8, 0.6, 0.4, 0.2)")
        object.__setattr__(self, "capacities", below_one)

    @property
    def reported(self) -> tuple[float, ...]:
        """The capacities a trained family is said to be trained at."""
        return self.capacities

    def draw(self, generator: torch.Generator) -> tuple[float, ...]:  # noqa: ARG002
        """The capacities of one step, largest first."""
        return self.capacities

    def names(self, drawn: Sequence[float]) -> list[str]:
        """What the losses of a step are called."""
        return [f"{capacity:g}" for capacity in drawn]


@dataclass(frozen=True)
class AnyCapacities:
    """Every capacity from `smallest` up: at each step the smallest, and `random` ones between it and 1.

    The random ones are stratified, one from each of as many equal parts, so that no step looks at one end alone.
    """

    smallest: float = 0.05
    random: int = 2
    distribution: Distribution = "log-uniform"

    def __post_init__(self) -> None:
        if check_capacity(self.smallest) == 1.0:
            raise CapacityError("the smallest capacity must be below 1")
        if self.random < 0:
            raise CapacityError(f"random capacities per step must be at least 0; found {self.random}")

    @property
    def reported(self) -> tuple[float, ...]:
        usual = (0.8, 0.6, 0.4, 0.2, 0.1, 0.05)
        return (*(capacity for capacity in usual if capacity > self.smallest), self.smallest)

    def draw(self, generator: torch.Generator) -> tuple[float, ...]:
        places = torch.rand(self.random, generator=generator, dtype=torch.float64).tolist()
        positions = [(part + place) / self.random for part, place in enumerate(places)]
        if self.distribution == "uniform":
            between = [self.smallest + (1 - self.smallest) * position for position in positions]
        else:
            between = [math.exp(math.log(self.smallest) * (1 - position)) for position in positions]
        return (*sorted(between, reverse=True), self.smallest)

    def names(self, drawn: Sequence[float]) -> list[str]:
        return [*(f"random{i}" for i in range(1, len(drawn))), f"{drawn[-1]:g}"]


Capacities = FixedCapacities | AnyCapacities
