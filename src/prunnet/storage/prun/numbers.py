"""How values are written: half precision or eight bits, each as a coded byte and, for half precision, a raw one."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from prunnet.errors import FamilyError
from prunnet.storage.prun.coding import Bytes

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]
Values = Literal["float16", "int8"]

_SMALL_FILTER = 32
_SMALL_LAYER = 1 / 128  # of all connections
_LARGEST = np.finfo(np.float32).max


def stepped_layers(shapes: Mapping[str, Sequence[int]], values: Values) -> tuple[str, ...]:
    """The layers that are written in eight bits.

    Small filters (a depthwise convolution) and small layers (the first ones) are not: they are few of the values and
    most of the error.
    """
    least = _SMALL_LAYER * sum(map(math.prod, shapes.values()))
    large = (n for n, s in shapes.items() if math.prod(s[1:]) >= _SMALL_FILTER and math.prod(s) >= least)
    return tuple(large) if values == "int8" else ()


def exponent_for(values: Floats, name: str) -> int:
    """The power of two that brings `values` into the range of half precision: the largest lands in [2^14, 2^15)."""
    if not np.isfinite(values).all():
        raise FamilyError(f"{name} contains NaN or infinity, so it cannot be packed")
    largest = np.abs(values).max(initial=0.0)
    return int(np.frexp(largest)[1]) - 15 if largest else 0


def to_halves(values: Floats, exponent: int) -> Halves:
    return np.ldexp(values.astype(np.float64), -exponent).astype("<f2").view(np.uint16)


def from_halves(halves: Halves, exponent: int) -> Floats:
    values = halves.view(np.float16).astype(np.float32)
    if not np.isfinite(values).all():
        raise FamilyError("it holds values that are not finite")
    with np.errstate(over="ignore"):
        scaled = np.ldexp(values, np.int32(exponent))
    return np.clip(scaled, -_LARGEST, _LARGEST)  # rounding may step over the end of float32


def rounded(values: Floats, name: str) -> Floats:
    """`values` as they come back from half precision."""
    exponent = exponent_for(values, name)
    return from_halves(to_halves(values, exponent), exponent)


def filter_scales(weight: Floats) -> Floats:
    """Per output filter, the size of one of its 127 steps."""
    scales: Floats = np.abs(weight.reshape(len(weight), -1)).max(axis=1) / np.float32(127)
    return scales


def to_steps(weight: Floats, scales: Floats) -> Bytes:
    """Every value of a layer in steps of its filter's scale, plus 128."""
    filters = weight.reshape(len(weight), -1)
    step = np.broadcast_to(scales[:, None], filters.shape)
    steps = np.divide(filters, step, out=np.zeros_like(filters), where=step > 0)
    return (np.clip(np.rint(steps), -127, 127) + 128).astype(np.uint8).ravel()


def from_steps(steps: Bytes, scales: Floats) -> Floats:
    """Values from steps, given the scale of each."""
    return (steps.astype(np.float32) - 128) * scales


def in_steps(weight: Floats, name: str) -> Floats:
    """`weight` as it comes back from eight bits."""
    scales = rounded(filter_scales(weight), name)
    return from_steps(to_steps(weight, scales), np.repeat(scales, weight[0].size)).reshape(weight.shape)


def half_classes(high: Bytes) -> Bytes:
    """The exponent: the only part of a half that is far from evenly distributed."""
    return (high >> np.uint8(2)) & np.uint8(31)


def half_weights(table: Bytes) -> NDArray[np.float64]:
    """An exponent shares its weight evenly among both signs and four leading fractions."""
    return np.tile(np.repeat(table.astype(np.float64), 4), 2)


def step_classes(steps: Bytes) -> Bytes:
    return steps >> np.uint8(3)


def step_weights(table: Bytes) -> NDArray[np.float64]:
    return np.repeat(table.astype(np.float64), 8)
