"""What an unstructured network costs at every capacity.

Parameters: connections kept, plus everything that is not prunable (biases, norms, head).
MACs: torch's own flop counter on the dense network, each prunable layer scaled by the share it keeps.
Bytes: values in half precision, plus which connections are kept at its entropy log2 C(n, k): the size that a packed
subnetwork comes close to, however it is coded.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from prunnet.costs.quantities import format_quantity
from prunnet.errors import CapacityError
from prunnet.network import batchnorm
from prunnet.network.functional import evaluating
from prunnet.network.prunable import PrunableNetwork

BYTES_PER_VALUE = 2  # half precision


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


class Profile(Protocol):
    """What the subnetworks of one family cost."""

    def cost(self, capacity: float) -> Cost:
        """At one capacity."""

    def within_bytes(self, budget: float) -> float:
        """The largest capacity whose subnetwork takes at most `budget` bytes."""

    def within_macs(self, budget: float) -> float:
        """The largest capacity whose subnetwork takes at most `budget` MACs."""


class CostProfile:
    """What a network costs at every capacity, from one dense pass over one image."""

    def __init__(self, net: PrunableNetwork) -> None:
        self.net = net
        self.names = list(net.scores)
        self.connections = np.array(list(net.connections.values()), dtype=np.int64)

    def cost(self, capacity: float) -> Cost:
        kept = self.kept(capacity)
        rows = zip(
            self.names,
            self.connections.tolist(),
            kept.tolist(),
            self.layer_bytes(kept).tolist(),
            self.layer_macs(kept).tolist(),
            strict=True,
        )
        backbone_parameters = self.backbone_parameters_at(capacity)
        return Cost(
            capacity=capacity,
            backbone_parameters=backbone_parameters,
            parameters=backbone_parameters + self.head_parameters,
            bytes=self.bytes_at(capacity),
            macs=self.macs_at(capacity),
            layers=tuple(LayerCost(*row) for row in rows),
        )

    @cached_property
    def macs(self) -> NDArray[np.int64]:
        """Dense MACs of each prunable layer."""
        return self._all_macs[0]

    @cached_property
    def other_macs(self) -> int:
        """MACs of the head, of attention and of every layer that is not prunable."""
        return self._all_macs[1]

    @cached_property
    def _all_macs(self) -> tuple[NDArray[np.int64], int]:
        total, per_parameter = _dense_macs(self.net)
        macs = np.array([per_parameter.get(f"backbone.{name}", 0) for name in self.names], dtype=np.int64)
        return macs, total - int(macs.sum())

    @cached_property
    def head_parameters(self) -> int:
        return sum(p.numel() for p in self.net.head.parameters())

    @cached_property
    def _unpruned(self) -> int:
        """Parameters of the backbone that no pruning touches."""
        return sum(p.numel() for p in self.net.backbone.parameters()) - int(self.connections.sum())

    @cached_property
    def _statistics(self) -> int:
        buffers = batchnorm.buffers(batchnorm.layers(self.net))
        return sum(tensor.numel() for tensor in buffers.values() if tensor.is_floating_point())

    def backbone_parameters_at(self, capacity: float) -> int:
        return int(self.kept(capacity).sum()) + self._unpruned

    def kept(self, capacity: float) -> NDArray[np.int64]:
        kept = self.net.selection.allocation.kept(capacity, self.net.connections)
        return np.array([kept[name] for name in self.names], dtype=np.int64)

    def layer_bytes(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        membership = [_membership_bytes(int(n), int(k)) for n, k in zip(self.connections, kept, strict=True)]
        return BYTES_PER_VALUE * kept + np.array(membership, dtype=np.int64)

    def layer_macs(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.rint(self.macs * (kept / self.connections)).astype(np.int64)

    def bytes_at(self, capacity: float) -> int:
        others = self._unpruned + self.head_parameters + self._statistics
        return BYTES_PER_VALUE * others + int(self.layer_bytes(self.kept(capacity)).sum())

    def macs_at(self, capacity: float) -> int:
        return self.other_macs + int(self.layer_macs(self.kept(capacity)).sum())

    def within_bytes(self, budget: float) -> float:
        # Leaving out one more of n connections saves its value and costs log2((n-k)/k) bits of membership. That pays
        # until almost all are kept; up to there bytes only grow, and beyond they exceed those of the dense network.
        return _largest(self.bytes_at, budget, "B", growing=1.0 / (1.0 + 2.0 ** (-8 * BYTES_PER_VALUE)))

    def within_macs(self, budget: float) -> float:
        return _largest(self.macs_at, budget, "MACs", growing=1.0)


def _largest(cost_at: Callable[[float], int], budget: float, unit: str, growing: float) -> float:
    """The largest capacity within `budget`, where cost grows with capacity up to `growing`."""
    if cost_at(1.0) <= budget:
        return 1.0
    low, high = 0.0, growing
    least = math.ulp(0.0)
    if cost_at(least) > budget:
        raise CapacityError(
            f"no subnetwork fits {format_quantity(budget, unit)}: the smallest possible, "
            f"one connection per layer, takes {format_quantity(cost_at(least), unit)}"
        )
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if cost_at(middle) <= budget else (low, middle)
    return low or least


def _membership_bytes(connections: int, kept: int) -> int:
    """log2 C(n, k), rounded up to bytes."""
    bits = (math.lgamma(connections + 1) - math.lgamma(kept + 1) - math.lgamma(connections - kept + 1)) / math.log(2)
    return math.ceil(max(0.0, bits) / 8)


@torch.no_grad()
def _dense_macs(net: PrunableNetwork) -> tuple[int, dict[str, int]]:
    """MACs of the dense network for one image, and those that each parameter takes part in."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    images = torch.zeros(1, *net.preprocessing.input_size).to(next(net.parameters()))
    fastpath = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # fused kernels are not counted
    try:
        with evaluating(net), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            net(images)
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
    counts = {name.partition(".")[2]: ops for name, ops in counter.get_flop_counts().items() if name != "Global"}
    return counter.get_total_flops() // 2, _split_by_parameter(net, counts)


def _split_by_parameter(net: nn.Module, counts: dict[str, dict[Any, int]]) -> dict[str, int]:
    """A module's own matrix products (without its children's) belong to its weights, in proportion to their size.

    The weights of a child that is never called itself (an attention's output projection) count with its parent.
    """
    weight_products = {torch.ops.aten.convolution, torch.ops.aten.mm, torch.ops.aten.addmm}
    total = {name: sum(n for op, n in ops.items() if op in weight_products) for name, ops in counts.items()}
    own = dict(total)
    for name, flops in total.items():
        if name:
            own[name.rpartition(".")[0]] -= flops
    owned: dict[str, list[tuple[str, int]]] = {}
    for name, parameter in net.named_parameters():
        owner = name.rpartition(".")[0]
        while owner and not own.get(owner):
            owner = owner.rpartition(".")[0]
        if parameter.ndim > 1 and owner:
            owned.setdefault(owner, []).append((name, parameter.numel()))
    shares: dict[str, int] = {}
    for owner, parameters in owned.items():
        size = sum(numel for _, numel in parameters)
        shares.update({name: own[owner] * numel // (2 * size) for name, numel in parameters})
    return shares
