"""Batch-norm statistics for rounded weights.

Rounding shifts the mean of every channel a little, and a channel that hardly varies turns that into a large error. What
the shift is shows on images: statistics of the rounded network, against those of the exact one on the same batches.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from prunnet.network import batchnorm
from prunnet.network.family import ALIGN_BATCHES
from prunnet.network.prunable import PrunableNetwork
from prunnet.storage.folders import saved_tensors
from prunnet.storage.prun.header import is_mean


def corrected_statistics(
    net: PrunableNetwork, rounded: Mapping[str, Tensor], capacities: Sequence[float], batches: Sequence[Any]
) -> list[dict[str, Tensor]]:
    """Statistics at each capacity for `net` with the tensors `rounded` in place of its own.

    The means and variances of `net`, or those adapted and aligned on `batches` where it has none, move by the
    difference that rounding makes on `batches`.
    """
    known = copy.deepcopy(net)
    if missing := [capacity for capacity in capacities if known_statistics(net, capacity) is None]:
        known.adapt(batches, missing, adapt_batches=None, align_batches=ALIGN_BATCHES)
    exact = _adapted(copy.deepcopy(net), capacities, batches)
    other = copy.deepcopy(net)
    with torch.no_grad():
        for name, tensor in saved_tensors(other).items():
            tensor.copy_(rounded.get(name, tensor))
    shifted = _adapted(other, capacities, batches)
    own = [known_statistics(known, capacity) or {} for capacity in capacities]
    return [
        {name: _moved(name, its[name], before[name], after[name]) for name in before}
        for its, before, after in zip(own, exact, shifted, strict=True)
    ]


def known_statistics(net: PrunableNetwork, capacity: float) -> dict[str, Tensor] | None:
    """The statistics that `net` has for `capacity`, or None if they were never adapted."""
    return _running(net) if capacity == 1.0 else net.statistics.get(capacity)


def _adapted(net: PrunableNetwork, capacities: Sequence[float], batches: Iterable[Any]) -> list[dict[str, Tensor]]:
    net.adapt(batches, capacities, adapt_batches=None)
    return [known_statistics(net, capacity) or {} for capacity in capacities]


def _running(net: PrunableNetwork) -> dict[str, Tensor]:
    buffers = batchnorm.buffers(batchnorm.layers(net))
    return {name: tensor for name, tensor in buffers.items() if tensor.is_floating_point()}


def _moved(name: str, own: Tensor, before: Tensor, after: Tensor) -> Tensor:
    moved = own + (after - before)
    return moved if is_mean(name) else moved.clamp_min(0)
