"""What the subnetworks of any family cost, the largest that fits a budget, and all of it at a glance."""

from collections.abc import Iterable
from dataclasses import dataclass

from prunnet.costs.members_profile import MembersProfile
from prunnet.costs.profile import Cost, CostProfile, Profile
from prunnet.costs.quantities import parse_quantity
from prunnet.costs.structured_profile import StructuredCostProfile
from prunnet.errors import CapacityError
from prunnet.network import Family, PrunableNetwork
from prunnet.network.capacity import check_capacity
from prunnet.network.family import check_available
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


@dataclass(frozen=True)
class Info:
    """`costs` largest first; `fitting` is the largest capacity within the budgets asked for, if any were."""

    kind: str
    family_id: str
    input_size: tuple[int, int, int]
    embedding_dim: int
    capacities: tuple[float, ...]
    costs: tuple[Cost, ...]
    fitting: float | None


def info(
    family: Family,
    capacities: Iterable[float] | None = None,
    *,
    max_bytes: float | str | None = None,
    max_macs: float | str | None = None,
) -> Info:
    """Costs at `capacities` (default: the usual ones and those trained), and at the largest within a budget."""
    wanted = family.usual_capacities if capacities is None else check_available(family, capacities)
    fitting = None
    if max_bytes is not None or max_macs is not None:
        fitting = capacity_for(family, max_bytes=max_bytes, max_macs=max_macs)
    rows = sorted({*wanted, *(() if fitting is None else (fitting,))}, reverse=True)
    return Info(
        kind=family.kind,
        family_id=family.family_id,
        input_size=family.preprocessing.input_size,
        embedding_dim=family.embedding_dim,
        capacities=family.capacities,
        costs=tuple(cost_table(family, rows)),
        fitting=fitting,
    )
