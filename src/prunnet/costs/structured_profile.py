"""What a structured network costs: biases, norms and statistics go with their filters, and nothing says what is kept.

MACs of a layer fall with its weights. Attention itself counts as if all heads stayed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prunnet.costs.profile import BYTES_PER_VALUE, CostProfile
from prunnet.costs.quantities import format_quantity
from prunnet.errors import CapacityError
from prunnet.network import PrunableNetwork
from prunnet.structured import structure_of
from prunnet.structured.structure import widest


class StructuredCostProfile(CostProfile):
    """Costs by capacity, for a family trained structured, and by width, for a structured view of any family."""

    def __init__(self, net: PrunableNetwork) -> None:
        super().__init__(net)
        self.structure = structure_of(net)

    def kept(self, capacity: float) -> NDArray[np.int64]:
        return self._kept_of(self._width(capacity))

    def backbone_parameters_at(self, capacity: float) -> int:
        return sum(self.structure.parameters(self._width(capacity)).values())

    def layer_bytes(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        return BYTES_PER_VALUE * kept

    def bytes_at(self, capacity: float) -> int:
        return self.bytes_of(self._width(capacity))

    def within_bytes(self, budget: float) -> float:
        return self.structure.capacity(self.width_within_bytes(budget))

    def within_macs(self, budget: float) -> float:
        return self.structure.capacity(self.width_within_macs(budget))

    def bytes_of(self, width: float) -> int:
        """Half-precision bytes: parameters, the head, and batch-norm statistics."""
        spec = self.structure.shapes(width)
        statistics = 2 * sum(spec[name][0] for name in spec if len(spec[name]) == 1)
        head = sum(t.numel() for t in self.net.head.state_dict().values() if t.is_floating_point())
        return BYTES_PER_VALUE * int(sum(self.structure.parameters(width).values()) + statistics + head)

    def macs_of(self, width: float) -> int:
        """MACs of one image."""
        return self.other_macs + int(self.layer_macs(self._kept_of(width)).sum())

    def width_within_bytes(self, budget: float) -> float:
        """The largest width whose subnetwork takes at most `budget` bytes."""
        return _widest_within(self.bytes_of, budget, "B")

    def width_within_macs(self, budget: float) -> float:
        """The largest width whose subnetwork takes at most `budget` MACs."""
        return _widest_within(self.macs_of, budget, "MACs")

    def _width(self, capacity: float) -> float:
        return self.structure.width_for(capacity)

    def _kept_of(self, width: float) -> NDArray[np.int64]:
        left = self.structure.parameters(width)
        return np.array([left[name] for name in self.names], dtype=np.int64)


def _widest_within(cost_of: Callable[[float], int], budget: float, unit: str) -> float:
    if (least := cost_of(0.0)) > budget:
        raise CapacityError(
            f"no structured subnetwork fits {format_quantity(budget, unit)}: the narrowest takes "
            f"{format_quantity(least, unit)}"
        )
    return widest(lambda width: cost_of(width) <= budget)
