"""How a capacity, one number for the whole network, is divided among its layers.

A layer of sensitivity σ keeps the share min(1, ε·σ) of its connections, where ε is such that all layers together keep
the capacity. It grows with the capacity, so masks are nested whatever the sensitivities are; equal ones are the paper's
rule, the same share of every layer.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from torch import Tensor, nn

from prunnet.network.capacity import kept_connections

AllocationName = Literal["uniform", "protected", "measured"]


class Allocation(ABC):
    """How many connections each layer keeps at a capacity."""

    name: AllocationName
    """As settings say it."""

    @abstractmethod
    def kept(self, capacity: float, connections: Mapping[str, int]) -> dict[str, int]:
        """Of layers with so many `connections`, by name: at least one each."""


class Uniform(Allocation):
    """Every layer keeps the same share (Eq. 1)."""

    name = "uniform"

    def kept(self, capacity: float, connections: Mapping[str, int]) -> dict[str, int]:
        return {name: kept_connections(capacity, n) for name, n in connections.items()}


class Sensitive(Allocation):
    """Every layer keeps a share in proportion to its sensitivity, and none more than all of it."""

    def __init__(self, sensitivities: Mapping[str, float], name: AllocationName = "protected") -> None:
        self.sensitivities = dict(sensitivities)
        self.name = name

    def kept(self, capacity: float, connections: Mapping[str, int]) -> dict[str, int]:
        sensitivities = [Fraction(self.sensitivities[name]) for name in connections]
        rising = _rising(tuple(zip(connections.values(), sensitivities, strict=True)))
        level = _level(rising, Fraction(capacity) * sum(connections.values()))
        return {
            name: max(1, round(min(Fraction(1), level * sensitivity) * n))
            for (name, n), sensitivity in zip(connections.items(), sensitivities, strict=True)
        }


_Rising = list[tuple[Fraction, Fraction, Fraction]]


@lru_cache(maxsize=16)
def _rising(layers: tuple[tuple[int, Fraction], ...]) -> _Rising:
    """Where one layer after the other becomes whole: the level, what all keep there, and how fast that rises from it.

    Fractions, so that rounding never makes a larger capacity keep less.
    """
    points, whole, slope = [], Fraction(0), sum((n * sensitivity for n, sensitivity in layers), Fraction(0))
    points.append((Fraction(0), Fraction(0), slope))
    for n, sensitivity in sorted(layers, key=lambda layer: -layer[1]):
        whole, slope = whole + n, slope - n * sensitivity
        points.append((1 / sensitivity, whole + slope / sensitivity, slope))
    return points


def _level(rising: _Rising, wanted: Fraction) -> Fraction:
    """The level at which all layers together keep `wanted` connections."""
    level, kept, slope = rising[bisect_right(rising, wanted, key=lambda point: point[1]) - 1]
    return level + (wanted - kept) / slope if slope else level


def protecting(backbone: nn.Module, weights: Mapping[str, Tensor]) -> Sensitive:
    """Other layers keep a share that falls with the root of their size; depthwise layers and the first, which are small
    and decide everything behind them, stay whole as long as that takes no more than half of what is kept.

    The root is that of Erdős–Rényi-kernel densities, (out + in + height + width) / (out · in · height · width).
    """
    layers = dict(backbone.named_modules())
    roots = {name: math.sqrt(sum(weight.shape) / weight.numel()) for name, weight in weights.items()}
    decisive = {next(iter(weights)), *(name for name in weights if _is_depthwise(layers[name.rpartition(".")[0]]))}
    others = tuple((weights[name].numel(), Fraction(root)) for name, root in roots.items() if name not in decisive)
    if not others:
        return Sensitive(roots)
    wanted = min(sum(weights[name].numel() for name in decisive), sum(n for n, _ in others))
    half = float(1 / _level(_rising(others), Fraction(wanted)))  # at this level the others keep as many
    return Sensitive({name: half if name in decisive else root for name, root in roots.items()})


def _is_depthwise(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Conv2d) and layer.groups == layer.in_channels > 1
