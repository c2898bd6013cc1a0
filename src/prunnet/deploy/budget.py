"""From what a device can bear to a subnetwork: the largest one within bytes, MACs and milliseconds."""

from collections.abc import Iterable
from typing import Any

from prunnet.deploy.latency import largest_within, latency, parse_latency
from prunnet.deploy.structured import removed, structured_subnetwork
from prunnet.errors import CapacityError
from prunnet.network import PrunableNetwork, Subnetwork, adapt_batchnorm, capacity_for
from prunnet.network.capacity import format_capacity
from prunnet.network.structured_cost import StructuredCostProfile
from prunnet.network.units import parse_quantity


def prune(
    net: PrunableNetwork,
    *,
    capacity: float | None = None,
    max_bytes: float | str | None = None,
    max_macs: float | str | None = None,
    max_latency: float | str | None = None,
    runtime: str = "torch",
    structured: bool = False,
    loader: Iterable[Any] | None = None,
    max_batches: int | None = None,
) -> Subnetwork:
    """The subnetwork at `capacity`, or the largest within every given budget, with batch-norm statistics of its own.

    max_latency: for one image on this machine in `runtime`, in seconds or as "8ms"; it is measured.
    structured: remove whole filters, as a family that was trained so always does; `capacity` is then the share of the
        backbone's parameters.
    loader: preprocessed training images for the statistics (at most `max_batches` of them); without it the family
        must have stored those of this very capacity.
    """
    budgets = (max_bytes, max_macs, max_latency)
    if (capacity is None) == all(budget is None for budget in budgets):
        raise CapacityError("name either a capacity or a budget: max_bytes, max_macs or max_latency")
    structured = structured or net.structured
    if structured and capacity is not None:
        subnetwork = structured_subnetwork(net, capacity)
    elif structured:
        subnetwork = _structured(net, max_bytes, max_macs, max_latency, runtime)
    else:
        if capacity is None:
            capacity = 1.0
            if max_bytes is not None or max_macs is not None:
                capacity = capacity_for(net, max_bytes=max_bytes, max_macs=max_macs)
            if max_latency is not None:

                def measure(capacity: float) -> float:
                    return latency(net.subnetwork(capacity), runtime)

                fitting = largest_within(measure, parse_latency(max_latency), runtime, structured=False)
                capacity = min(capacity, fitting)
        subnetwork = net.subnetwork(capacity)
    if loader is not None:
        adapt_batchnorm(subnetwork, loader, max_batches)
    elif not subnetwork.adapted:
        raise CapacityError(_no_statistics(net, subnetwork.capacity, structured))
    return subnetwork


def _structured(
    net: PrunableNetwork,
    max_bytes: float | str | None,
    max_macs: float | str | None,
    max_latency: float | str | None,
    runtime: str,
) -> Subnetwork:
    profile, width = StructuredCostProfile(net), 1.0
    if max_bytes is not None:
        width = min(width, profile.width_within_bytes(parse_quantity(max_bytes, "B")))
    if max_macs is not None:
        width = min(width, profile.width_within_macs(parse_quantity(max_macs, "")))
    if max_latency is not None:

        def measure(width: float) -> float:
            return latency(removed(net, width), runtime)

        width = min(width, largest_within(measure, parse_latency(max_latency), runtime, structured=True))
    if net.structured:
        return structured_subnetwork(net, net.structure.capacity(width))
    return removed(net, width)


def _no_statistics(net: PrunableNetwork, capacity: float, structured: bool) -> str:
    a_view = structured and not net.structured
    missing = "a structured subnetwork" if a_view else f"the {format_capacity(capacity)} subnetwork"
    smaller = [] if a_view else [stored for stored in net.statistics if stored < capacity]
    hint = f", or take capacity {max(smaller):g}, which has them" if smaller else ""
    return f"{missing} has no batch-norm statistics of its own in this family; give images to adapt it (--data){hint}"
