"""What a subnetwork costs, and the largest one that fits a budget."""

from dataclasses import dataclass

from prunnet.errors import CapacityError
from prunnet.network.capacity import check_capacity
from prunnet.network.cost_profile import CostProfile
from prunnet.network.prunable import PrunableNetwork
from prunnet.network.structured_cost import StructuredCostProfile
from prunnet.network.units import parse_quantity


@dataclass(frozen=True)
class LayerCost:
    """One prunable layer at one capacity."""

    name: str
    connections: int
    kept: int
    bytes: int
    macs: int


@dataclass(frozen=True)
class Cost:
    """A subnetwork at one capacity; `layers` are the prunable ones, the totals include the rest."""

    capacity: float
    backbone_parameters: int
    parameters: int
    bytes: int
    macs: int
    layers: tuple[LayerCost, ...]


def cost(net: PrunableNetwork, capacity: float) -> Cost:
    """Parameters, bytes and MACs (one image) of the subnetwork at `capacity`, per layer and whole."""
    return cost_table(net, (capacity,))[0]


def cost_table(net: PrunableNetwork, capacities: tuple[float, ...]) -> list[Cost]:
    """The cost at each of `capacities` from one profile."""
    profile = _profile(net)
    return [_cost(profile, check_capacity(capacity)) for capacity in capacities]


def capacity_for(
    net: PrunableNetwork, *, max_bytes: float | str | None = None, max_macs: float | str | None = None
) -> float:
    """The largest capacity whose subnetwork is within every given budget: `max_bytes="3MB"`, `max_macs="200M"`."""
    if max_bytes is None and max_macs is None:
        raise CapacityError("name a budget: max_bytes= or max_macs=")
    profile, capacity = _profile(net), 1.0
    if max_bytes is not None:
        capacity = min(capacity, profile.within_bytes(parse_quantity(max_bytes, "B")))
    if max_macs is not None:
        capacity = min(capacity, profile.within_macs(parse_quantity(max_macs, "")))
    return capacity


def _profile(net: PrunableNetwork) -> CostProfile:
    return StructuredCostProfile(net) if net.structured else CostProfile(net)


def _cost(profile: CostProfile, capacity: float) -> Cost:
    kept = profile.kept(capacity)
    rows = zip(
        profile.names,
        profile.connections.tolist(),
        kept.tolist(),
        profile.layer_bytes(kept).tolist(),
        profile.layer_macs(kept).tolist(),
        strict=True,
    )
    backbone_parameters = profile.backbone_parameters_at(capacity)
    return Cost(
        capacity=capacity,
        backbone_parameters=backbone_parameters,
        parameters=backbone_parameters + profile.head_parameters,
        bytes=profile.bytes_at(capacity),
        macs=profile.macs_at(capacity),
        layers=tuple(LayerCost(*row) for row in rows),
    )
