"""Capacity: the fraction of connections kept, in (0, 1]."""

import math
from collections.abc import Iterable
from numbers import Real

from prunnet.errors import CapacityError


def check_capacity(capacity: float) -> float:
    """Return `capacity` as a float, or say why it is none."""
    if isinstance(capacity, bool) or not isinstance(capacity, Real):
        raise CapacityError(
            f"capacity must be a number in (0, 1], the fraction of connections kept; found {capacity!r} "
            f"of type {type(capacity).__name__}"
        )
    value = float(capacity)
    if math.isnan(value) or not 0.0 < value <= 1.0:
        hint = f"; for {value:g} % write {value / 100:g}" if 1.0 < value <= 100.0 else ""
        raise CapacityError(f"capacity must be in (0, 1], the fraction of connections kept; found {value:g}{hint}")
    return value


def check_capacities(capacities: Iterable[float]) -> tuple[float, ...]:
    """Return the distinct capacities, largest first."""
    if isinstance(capacities, str | Real):
        raise CapacityError(
            f"capacities must be a sequence of numbers in (0, 1], such as (0.8, 0.2); found {capacities!r}"
        )
    return tuple(sorted({check_capacity(capacity) for capacity in capacities}, reverse=True))


def kept_connections(capacity: float, connections: int) -> int:
    """How many of a layer's connections a subnetwork keeps: the nearest whole number, at least one."""
    return max(1, round(capacity * connections))


def format_capacity(capacity: float) -> str:
    """`0.2` → `20 %`, with as many digits as tell capacities apart."""
    return f"{100 * capacity:.4g} %"
