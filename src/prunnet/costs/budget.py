"""What the subnetworks of any family cost, and the largest one that fits a budget."""

from collections.abc import Iterable

from prunnet.costs.members_profile import MembersProfile
from prunnet.costs.profile import Cost, CostProfile, Profile
from prunnet.costs.quantities import parse_quantity
from prunnet.costs.structured_profile import StructuredCostProfile
from prunnet.errors import CapacityError
from prunnet.network import Family, PrunableNetwork
from prunnet.network.capacity import check_capacity
from prunnet.structured import Filters


def profile_of(family: Family) -> Profile:
    """What each capacity of `family` costs."""
    if not isinstance(family, PrunableNetwork):
        return MembersProfile(family)
    return StructuredCostProfile(family) if isinstance(family.selection, Filters) else CostProfile(family)


def cost(family: Family, capacity: float) -> Cost:
    """Parameters, bytes and MACs (one image) of the subnetwork at `capacity`, per layer and whole."""
    return cost_table(family, (capacity,))[0]


def cost_table(family: Family, capacities: Iterable[float]) -> list[Cost]:
    """The cost at each of `capacities` from one profile."""
    profile = profile_of(family)
    return [profile.cost(check_capacity(capacity)) for capacity in capacities]


def capacity_for(family: Family, *, max_bytes: float | str | None = None, max_macs: float | str | None = None) -> float:
    """The largest capacity whose subnetwork is within every given budget: `max_bytes="3MB"`, `max_macs="200M"`."""
    if max_bytes is None and max_macs is None:
        raise CapacityError("name a budget: max_bytes= or max_macs=")
    profile, capacity = profile_of(family), 1.0
    if max_bytes is not None:
        capacity = min(capacity, profile.within_bytes(parse_quantity(max_bytes, "B")))
    if max_macs is not None:
        capacity = min(capacity, profile.within_macs(parse_quantity(max_macs, "")))
    return capacity
