"""Greedy pruning, Eq. 1: r(s) = 1 for the connections of a layer with the top-c scores.

Only the places where a ranking is cut matter, so the scores are selected, never sorted. Connections of equal score rank
by their position in the layer, which makes masks deterministic and nested for every pair of capacities.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunnet.errors import PrunNetError
from prunnet.network.capacity import kept_connections

Ranking = Literal["magnitude", "signed"]
Masks = dict[str, Tensor]


@torch.compiler.disable  # type: ignore[untyped-decorator]  # numpy selects
@torch.no_grad()
def rank(scores: Mapping[str, Tensor], capacities: Sequence[float], ranking: Ranking = "magnitude") -> list[Masks]:
    """Boolean masks by layer name, one mapping per capacity. |s| decides, or s itself when `ranking` is "signed"."""

    def masks_of(name: str) -> list[Tensor]:
        score = scores[name].detach()
        importance = score.abs() if ranking == "magnitude" else score
        counts = [kept_connections(capacity, score.numel()) for capacity in capacities]
        try:
            return top(importance, counts)
        except PrunNetError as error:
            raise PrunNetError(f"the scores of {name} {error}") from None

    if any(score.is_cuda for score in scores.values()):
        layers = [masks_of(name) for name in scores]
    else:  # numpy lets other threads run while it selects, so layers go side by side
        with ThreadPoolExecutor(max_workers=torch.get_num_threads()) as pool:
            layers = list(pool.map(masks_of, scores))
    return [dict(zip(scores, masks, strict=True)) for masks in zip(*layers, strict=True)]


def top(importance: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """For each k in `counts`, the mask of the k largest entries; among equals the earlier position wins."""
    importance = importance.contiguous()
    thresholds = _kth_largest(importance, counts)
    return [_keep(importance, threshold, count) for threshold, count in zip(thresholds, counts, strict=True)]


def _keep(importance: Tensor, threshold: float, count: int) -> Tensor:
    if count == importance.numel():
        return torch.ones_like(importance, dtype=torch.bool)
    mask = importance >= threshold
    kept = int(np.count_nonzero(mask.numpy())) if mask.device.type == "cpu" else int(mask.sum())
    if kept < count:
        raise PrunNetError("contain NaN; training has diverged")
    if kept > count:  # more connections stand exactly on the threshold than there are places left
        flat = mask.view(-1)
        ties = (importance.view(-1) == threshold).nonzero().view(-1)
        flat[ties[len(ties) - (kept - count) :]] = False
    return mask


def _kth_largest(importance: Tensor, counts: Sequence[int]) -> list[float]:
    ascending = [importance.numel() - count for count in counts]
    if importance.device.type != "cpu":
        sorted_values = importance.view(-1).sort().values
        return [float(value) for value in sorted_values[torch.tensor(ascending, device=importance.device)].tolist()]
    wide = importance if importance.dtype == torch.float64 else importance.float()  # numpy has no bfloat16
    values = wide.view(-1).numpy().copy()
    _partition(values, sorted(set(ascending)), 0)
    return [float(values[position]) for position in ascending]


def _partition(values: NDArray[np.floating], positions: Sequence[int], start: int) -> None:
    """Put in place the entries at the (sorted) `positions`, counted from `start`, halving the work at the middle one.

    One position at a time keeps numpy on its vectorised selection.
    """
    if positions:
        middle = len(positions) // 2
        cut = positions[middle] - start
        values.partition(cut)
        _partition(values[:cut], positions[:middle], start)
        _partition(values[cut + 1 :], positions[middle + 1 :], start + cut + 1)
