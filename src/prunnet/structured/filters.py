"""The selection of whole filters: a capacity is a share of the backbone's parameters, and keeps no filter in part."""

from collections.abc import Iterable, Sequence

from prunnet.network import PrunableNetwork, Selection
from prunnet.network.capacity import check_capacities
from prunnet.network.ranking import Masks
from prunnet.structured.structure import Structure


class Filters(Selection):
    """Every group of coupled filters keeps the same share of its units, those with the highest mean score."""

    name = "filters"

    def __init__(self) -> None:
        super().__init__()
        self._structure: Structure | None = None

    @property
    def structure(self) -> Structure:
        """The filters that can be dropped, and which must go together."""
        assert self._structure is not None  # a network attaches its selection when it is made
        return self._structure

    def attach(self, net: PrunableNetwork) -> None:
        self._structure = Structure(net)

    def masks(self, net: PrunableNetwork, capacities: Sequence[float]) -> list[Masks]:
        scores = dict(net.scores.items())
        ranked = self.structure.rank(scores, net.ranking)
        device = next(iter(scores.values())).device
        return [self.structure.masks(self.structure.width_for(capacity), ranked, device) for capacity in capacities]

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        return tuple(capacity for capacity in check_capacities(capacities) if capacity >= self.structure.least)


def structure_of(net: PrunableNetwork) -> Structure:
    """The filters of `net` that can be dropped, whatever it selects when it prunes."""
    return net.selection.structure if isinstance(net.selection, Filters) else Structure(net)
