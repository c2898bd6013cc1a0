"""What a capacity keeps of a network: single connections, whole filters, or what a score map of its own says."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch import Tensor, nn

from prunnet.errors import CapacityError
from prunnet.network.capacity import check_capacities, format_capacity
from prunnet.network.ranking import Masks, rank
from prunnet.network.scores import Scores

if TYPE_CHECKING:
    from prunnet.network.prunable import PrunableNetwork

SelectionName = Literal["connections", "filters", "maps"]


class Selection(nn.Module, ABC):
    """How the scores of a network become the masks of a capacity. Belongs to one network, which attaches it."""

    name: ClassVar[SelectionName]
    """As settings and files say it."""
    nested: ClassVar[bool] = True
    """Whether one score map decides, so that a smaller subnetwork is part of every larger one."""

    def attach(self, net: "PrunableNetwork") -> None:
        """Look at the network once, when it is made."""

    @abstractmethod
    def masks(self, net: "PrunableNetwork", capacities: Sequence[float]) -> list[Masks]:
        """r(s) of Eq. 1 at each of `capacities`, by parameter name."""

    def scores_at(self, net: "PrunableNetwork", capacity: float) -> Scores:  # noqa: ARG002
        """The scores that decide at `capacity`."""
        return net.scores

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        """Those of `capacities` that there is a subnetwork at, largest first."""
        return check_capacities(capacities)


class Connections(Selection):
    """Every layer keeps the same share of its connections, those with the highest scores (Eq. 1)."""

    name = "connections"

    def masks(self, net: "PrunableNetwork", capacities: Sequence[float]) -> list[Masks]:
        return rank(dict(net.scores.items()), capacities, net.ranking)  # type: ignore[no-any-return]


class ScoreMaps(Selection):
    """The ablation without greedy pruning: one score map per capacity, each choosing from the whole network.

    Such a network answers only at the capacities it has a map for, and its subnetworks are not nested.
    """

    name = "maps"
    nested = False

    def __init__(self, capacities: Iterable[float]) -> None:
        super().__init__()
        self.capacities = tuple(capacity for capacity in check_capacities(capacities) if capacity < 1.0)
        self.maps = nn.ModuleList()

    def attach(self, net: "PrunableNetwork") -> None:
        self.maps.extend(Scores(net.weights) for _ in self.capacities)
        net.scores.requires_grad_(False)  # the maps decide
        net.capacities = self.capacities

    def masks(self, net: "PrunableNetwork", capacities: Sequence[float]) -> list[Masks]:
        return [self._masks(net, capacity) for capacity in capacities]

    def _masks(self, net: "PrunableNetwork", capacity: float) -> Masks:
        if capacity == 1.0:
            everything: Mapping[str, Tensor] = {
                name: torch.ones_like(weight, dtype=torch.bool) for name, weight in net.weights.items()
            }
            return everything
        masks: Masks = rank(dict(self.scores_at(net, capacity).items()), (capacity,), net.ranking)[0]
        return masks

    def scores_at(self, net: "PrunableNetwork", capacity: float) -> Scores:  # noqa: ARG002
        if capacity not in self.capacities:
            have = ", ".join(map(format_capacity, (1.0, *self.capacities)))
            raise CapacityError(f"this network has a score map for each of {have}; found {format_capacity(capacity)}")
        scores = self.maps[self.capacities.index(capacity)]
        assert isinstance(scores, Scores)
        return scores

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        return tuple(c for c in check_capacities(capacities) if c in (1.0, *self.capacities))
