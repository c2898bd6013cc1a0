"""From what a device can bear to a subnetwork: the largest one within bytes, MACs and milliseconds."""

from collections.abc import Callable, Iterable
from typing import Any

from prunnet.deploy.latency import largest_within, parse_latency
from prunnet.deploy.structured import Structure
from prunnet.errors import CapacityError
from prunnet.network import PrunableNetwork, Subnetwork, adapt_batchnorm, capacity_for
from prunnet.network.capacity import check_capacity, format_capacity
from prunnet.network.cost import BYTES_PER_VALUE, CostProfile
from prunnet.network.units import format_quantity, parse_quantity


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
    structured: remove whole filters; `capacity` is then the share of the backbone's parameters.
    loader: preprocessed training images for the statistics (at most `max_batches` of them); without it the family
        must have stored those of this very capacity.
    """
    budgets = (max_bytes, max_macs, max_latency)
    if (capacity is None) == all(budget is None for budget in budgets):
        raise CapacityError("name either a capacity or a budget: max_bytes, max_macs or max_latency")
    if structured:
        subnetwork = _structured(net, capacity, max_bytes, max_macs, max_latency, runtime)
    else:
        if capacity is None:
            capacity = 1.0
            if max_bytes is not None or max_macs is not None:
                capacity = capacity_for(net, max_bytes=max_bytes, max_macs=max_macs)
            if max_latency is not None:
                fitting = largest_within(net.subnetwork, parse_latency(max_latency), runtime, structured=False)
                capacity = min(capacity, fitting)
        subnetwork = net.subnetwork(capacity)
    if loader is not None:
        adapt_batchnorm(subnetwork, loader, max_batches)
    elif not subnetwork.adapted:
        raise CapacityError(_no_statistics(net, subnetwork.capacity, structured))
    return subnetwork


def _structured(
    net: PrunableNetwork,
    capacity: float | None,
    max_bytes: float | str | None,
    max_macs: float | str | None,
    max_latency: float | str | None,
    runtime: str,
) -> Subnetwork:
    structure = Structure(net)
    if capacity is not None:
        return structure.removed(structure.width_for(check_capacity(capacity)))
    width = 1.0
    if max_bytes is not None:
        width = min(width, _widest(lambda w: structured_bytes(structure, w), parse_quantity(max_bytes, "B"), "B"))
    if max_macs is not None:
        profile = CostProfile(net)
        budget = parse_quantity(max_macs, "")
        width = min(width, _widest(lambda w: structured_macs(structure, w, profile), budget, "MACs"))
    if max_latency is not None:
        width = min(width, largest_within(structure.removed, parse_latency(max_latency), runtime, structured=True))
    return structure.removed(width)


def structured_bytes(structure: Structure, width: float) -> int:
    """Half-precision bytes: parameters, the head, and batch-norm statistics. Nothing has to say what is kept."""
    spec = structure.shapes(width)
    statistics = 2 * sum(spec[name][0] for name in spec if len(spec[name]) == 1)
    head = sum(t.numel() for t in structure.net.head.state_dict().values() if t.is_floating_point())
    return BYTES_PER_VALUE * int(sum(structure.parameters(width).values()) + statistics + head)


def structured_macs(structure: Structure, width: float, profile: CostProfile) -> int:
    """MACs of one image: a layer's fall with its weights. Attention itself counts as if all heads stayed."""
    left = structure.parameters(width)
    kept = [left[name] / int(n) for name, n in zip(profile.names, profile.connections, strict=True)]
    return profile.other_macs + round(sum(int(m) * share for m, share in zip(profile.macs, kept, strict=True)))


def _widest(cost_at: Callable[[float], int], budget: float, unit: str) -> float:
    if cost_at(1.0) <= budget:
        return 1.0
    if (least := cost_at(0.0)) > budget:
        raise CapacityError(
            f"no structured subnetwork fits {format_quantity(budget, unit)}: the narrowest takes "
            f"{format_quantity(least, unit)}"
        )
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if cost_at(middle) <= budget else (low, middle)
    return low


def _no_statistics(net: PrunableNetwork, capacity: float, structured: bool) -> str:
    missing = "a structured subnetwork" if structured else f"the {format_capacity(capacity)} subnetwork"
    smaller = [] if structured else [stored for stored in net.statistics if stored < capacity]
    hint = f", or take capacity {max(smaller):g}, which has them" if smaller else ""
    return f"{missing} has no batch-norm statistics of its own in this family; give images to adapt it (--data){hint}"
