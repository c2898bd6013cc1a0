"""The ablation without greedy pruning: one score map per capacity, each choosing from the whole network."""

from collections.abc import Iterable

import torch
from torch import nn

from prunnet.errors import CapacityError
from prunnet.network import PrunableNetwork
from prunnet.network.capacity import check_capacity
from prunnet.network.ranking import Masks, rank
from prunnet.network.scores import Scores


class ScoreMapsNetwork(PrunableNetwork):
    """A network that answers only at the capacities it has a score map for; its subnetworks are not nested."""

    def __init__(self, network: PrunableNetwork, capacities: tuple[float, ...]) -> None:
        weights = network.weights
        super().__init__(network.backbone, network.head, weights, network.preprocessing, network.ranking)
        self.capacities = capacities
        self.maps = nn.ModuleList(Scores(weights) for _ in capacities)
        self.scores.requires_grad_(False)  # kept for their names; the maps decide

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def masks_at(self, capacities: Iterable[float]) -> list[Masks]:
        return [self._masks_at(check_capacity(capacity)) for capacity in capacities]

    def _masks_at(self, capacity: float) -> Masks:
        if capacity == 1.0:
            return {name: torch.ones_like(weight, dtype=torch.bool) for name, weight in self.weights.items()}
        if capacity not in self.capacities:
            raise CapacityError(
                f"trained with one score map per capacity, this network has {', '.join(map(str, self.capacities))}; "
                f"found {capacity:g}"
            )
        masks: Masks = rank(dict(self.map_of(capacity).items()), (capacity,), self.ranking)[0]
        return masks

    def map_of(self, capacity: float) -> Scores:
        """The scores that choose the subnetwork at `capacity`."""
        scores = self.maps[self.capacities.index(capacity)]
        assert isinstance(scores, Scores)
        return scores
