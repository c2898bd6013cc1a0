"""From what a device can bear to a subnetwork: the largest one within bytes, MACs and milliseconds."""

from collections.abc import Iterable
from typing import Any, TypeGuard

from prunnet.costs import capacity_for
from prunnet.costs.quantities import parse_quantity
from prunnet.costs.structured_profile import StructuredCostProfile
from prunnet.deploy.latency import largest_within, latency, parse_latency
from prunnet.errors import CapacityError, KindError
from prunnet.network import Family, PrunableNetwork, Subnetwork
from prunnet.network.capacity import format_capacity
from prunnet.network.family import ADAPT_BATCHES, ALIGN_BATCHES
from prunnet.structured import Filters, structured_subnetwork
from prunnet.structured.removal import removed

Budget = float | str | None


def prune(
    family: Family,
    *,
    capacity: float | None = None,
    max_bytes: Budget = None,
    max_macs: Budget = None,
    max_latency: Budget = None,
    runtime: str = "torch",
    structured: bool = False,
    loader: Iterable[Any] | None = None,
    adapt_batches: int | None = ADAPT_BATCHES,
    align_batches: int = ALIGN_BATCHES,
) -> Subnetwork:
    """The subnetwork at `capacity`, or the largest within every given budget, with batch-norm statistics of its own.

    max_latency: for one image on this machine in `runtime`, in seconds or as "8ms"; it is measured.
    structured: remove whole filters, as a family that selects them always does; `capacity` is then the share of the
        backbone's parameters.
    loader: preprocessed training images for the statistics (at most `adapt_batches` of them), and to align the norms of
        a prunable network's member with the dense one (on `align_batches`); without it the family must have stored the
        statistics of this very capacity.
    """
    budgets = (max_bytes, max_macs, max_latency)
    if (capacity is None) == all(budget is None for budget in budgets):
        raise CapacityError("name either a capacity or a budget: max_bytes, max_macs or max_latency")
    view = structured and is_view(family)
    if capacity is None:
        subnetwork = _within(family, view, max_bytes, max_macs, max_latency, runtime)
    else:
        subnetwork = _view(family, capacity) if view else deployed(family, capacity)
    if loader is not None:
        dense = family.subnetwork(1.0) if isinstance(family, PrunableNetwork) else None
        subnetwork.adapt(loader, adapt_batches=adapt_batches, dense=dense, align_batches=align_batches)
    elif not subnetwork.adapted:
        raise CapacityError(_no_statistics(family, subnetwork.capacity, view))
    return subnetwork


def deployed(family: Family, capacity: float) -> Subnetwork:
    """The subnetwork at `capacity` as a device takes it: dropped filters are gone, dropped connections are zero."""
    if isinstance(family, PrunableNetwork) and isinstance(family.selection, Filters):
        return structured_subnetwork(family, capacity)
    return family.subnetwork(capacity)


def _view(family: Family, capacity: float) -> Subnetwork:
    assert isinstance(family, PrunableNetwork)
    return structured_subnetwork(family, capacity)


def is_view(family: Family) -> TypeGuard[PrunableNetwork]:
    """Whether structured subnetworks of `family` are another view of it than the one it was trained for."""
    if not isinstance(family, PrunableNetwork):
        raise KindError(f"filters are removed from a prunable network; this is {family.kind}")
    return not isinstance(family.selection, Filters)


def _within(
    family: Family, view: bool, max_bytes: Budget, max_macs: Budget, max_latency: Budget, runtime: str
) -> Subnetwork:
    """The largest subnetwork within all budgets."""
    if isinstance(family, PrunableNetwork) and (view or isinstance(family.selection, Filters)):
        profile = StructuredCostProfile(family)
        width = _widest(family, profile, max_bytes, max_macs, max_latency, runtime)
        if view:
            return removed(family, profile.structure, width)
        return structured_subnetwork(family, profile.structure.capacity(width))
    capacity = 1.0
    if max_bytes is not None or max_macs is not None:
        capacity = capacity_for(family, max_bytes=max_bytes, max_macs=max_macs)
    if max_latency is not None:
        capacity = min(capacity, _largest_within(family, parse_latency(max_latency), runtime))
    return family.subnetwork(capacity)


def _widest(
    net: PrunableNetwork,
    profile: StructuredCostProfile,
    max_bytes: Budget,
    max_macs: Budget,
    max_latency: Budget,
    runtime: str,
) -> float:
    width = 1.0
    if max_bytes is not None:
        width = min(width, profile.width_within_bytes(parse_quantity(max_bytes, "B")))
    if max_macs is not None:
        width = min(width, profile.width_within_macs(parse_quantity(max_macs, "")))
    if max_latency is not None:

        def measure(width: float) -> float:
            return latency(removed(net, profile.structure, width), runtime)

        width = min(width, largest_within(measure, parse_latency(max_latency), runtime, structured=True))
    return width


def _largest_within(family: Family, seconds: float, runtime: str) -> float:
    """The largest capacity that takes at most `seconds` in `runtime`."""

    def measure(capacity: float) -> float:
        return latency(family.subnetwork(capacity), runtime)

    if isinstance(family, PrunableNetwork) and family.selection.nested:
        return largest_within(measure, seconds, runtime, structured=False)
    sizes = family.available((1.0, *family.capacities))
    for size in sizes:
        if measure(size) <= seconds:
            return size
    raise CapacityError(
        f"no subnetwork takes at most {1e3 * seconds:.3g} ms in {runtime} here; the smallest there is has "
        f"{format_capacity(sizes[-1])}"
    )


def _no_statistics(family: Family, capacity: float, a_view: bool) -> str:
    missing = "a structured subnetwork" if a_view else f"the {format_capacity(capacity)} subnetwork"
    stored = family.statistics if isinstance(family, PrunableNetwork) and not a_view else ()
    smaller = [one for one in stored if one < capacity]
    hint = f", or take capacity {max(smaller):g}, which has them" if smaller else ""
    return f"{missing} has no batch-norm statistics of its own in this family; give images to adapt it (--data){hint}"
