"""Greedy pruning, Eq. 1: r(s) = 1 for the connections of a layer with the top-c scores.

Only the places where a ranking is cut matter, so the scores are selected, never sorted. Connections of equal score rank
by their position in the layer, which makes masks deterministic and nested for every pair of capacities. Nested masks
fit into one number per connection, its level: how many of the capacities keep it.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunnet.errors import PrunNetError
from prunnet.network.allocation import Allocation, Uniform

Ranking = Literal["magnitude", "signed"]
RANKINGS: tuple[Ranking, ...] = get_args(Ranking)
Masks = Mapping[str, Tensor]


class LevelMasks(Mapping[str, Tensor]):
    """The masks of one capacity, made layer by layer when asked for, from levels that several capacities share."""

    def __init__(self, levels: Mapping[str, Tensor], below: int) -> None:
        self._levels = levels
        self._below = below

    def __getitem__(self, name: str) -> Tensor:
        return self._levels[name] > self._below

    def __iter__(self) -> Iterator[str]:
        return iter(self._levels)

    def __len__(self) -> int:
        return len(self._levels)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # numpy selects
@torch.no_grad()
def rank(
    scores: Mapping[str, Tensor],
    capacities: Sequence[float],
    ranking: Ranking = "magnitude",
    allocation: Allocation = Uniform(),  # noqa: B008 - has no state
) -> list[Masks]:
    """Boolean masks by layer name, one mapping per capacity. |s| decides, or s itself when `ranking` is "signed"."""
    largest_first = sorted(range(len(capacities)), key=lambda index: -capacities[index])
    connections = {name: score.numel() for name, score in scores.items()}
    kept = [allocation.kept(capacity, connections) for capacity in capacities]

    def levels_of(name: str) -> Tensor:
        score = scores[name].detach()
        importance = score.abs() if ranking == "magnitude" else score
        try:
            return levels(importance, [counts[name] for counts in kept])
        except PrunNetError as error:
            raise PrunNetError(f"the scores of {name} {error}") from None

    if any(score.is_cuda for score in scores.values()):
        layers = [levels_of(name) for name in scores]
    else:  # numpy lets other threads run while it selects, so layers go side by side
        with ThreadPoolExecutor(max_workers=torch.get_num_threads()) as pool:
            layers = list(pool.map(levels_of, scores))
    by_name = dict(zip(scores, layers, strict=True))
    return [LevelMasks(by_name, largest_first.index(index)) for index in range(len(capacities))]


def levels(importance: Tensor, counts: Sequence[int]) -> Tensor:
    """How many of the `counts` k have each entry among their k largest; among equals the earlier position wins."""
    importance = importance.contiguous()
    dtype = torch.uint8 if len(counts) < 256 else torch.int32
    total = torch.zeros_like(importance, dtype=dtype)
    for threshold, count in zip(_kth_largest(importance, counts), counts, strict=True):
        total += _keep(importance, threshold, count)
    return total


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
