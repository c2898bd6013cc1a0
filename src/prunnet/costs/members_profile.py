"""What separate networks cost, each as it is: a narrower one whole, one whose connections were pruned without zeros."""

from collections.abc import Callable
from dataclasses import replace

from prunnet.costs.profile import Cost, CostProfile
from prunnet.costs.quantities import format_quantity
from prunnet.errors import CapacityError
from prunnet.network import Family, convert
from prunnet.network.capacity import format_capacity


class MembersProfile:
    """Costs of a family that has subnetworks at some capacities only."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self._known: dict[float, Cost] = {}

    def cost(self, capacity: float) -> Cost:
        if capacity not in self._known:
            member = self.family.subnetwork(capacity)
            whole = convert(member.backbone, member.embedding_dim, preprocessing=member.preprocessing)
            masked = any((weight == 0).any() for weight in whole.weights.values())
            self._known[capacity] = replace(CostProfile(whole).cost(capacity if masked else 1.0), capacity=capacity)
        return self._known[capacity]

    def within_bytes(self, budget: float) -> float:
        return self._largest(lambda cost: cost.bytes, budget, "B")

    def within_macs(self, budget: float) -> float:
        return self._largest(lambda cost: cost.macs, budget, "MACs")

    def _largest(self, amount: Callable[[Cost], int], budget: float, unit: str) -> float:
        costs = [self.cost(capacity) for capacity in self.family.available((1.0, *self.family.capacities))]
        for cost in costs:
            if amount(cost) <= budget:
                return cost.capacity
        smallest = costs[-1]
        raise CapacityError(
            f"no subnetwork fits {format_quantity(budget, unit)}: the smallest there is, "
            f"{format_capacity(smallest.capacity)}, takes {format_quantity(amount(smallest), unit)}"
        )
