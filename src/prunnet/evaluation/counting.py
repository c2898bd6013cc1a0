"""How many similarities of a row reach each of the row's thresholds.

The rank of an answer is one plus the number of images before it, so a metric over a whole gallery needs such counts and
no sort. Two ways to count share the thresholds. Those so high that few images reach them: pick out the few, once, and
compare only these. The others: compare the whole row with each, or sort it where there are many.
"""

from collections.abc import Iterator
from threading import local

import numpy as np
import numpy.typing as npt
import torch

Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LANE_LIMIT = 255
"""Flags are bytes 0 or 1; eight of them add up at once as one 64-bit word, each byte to at most 255."""

COLUMNS = 2 * 8 * LANE_LIMIT
"""A row of 16 kB stays in the first cache while its thresholds pass over it."""

FLAG_BYTES = 640_000
"""The flags of one pass stay in the second cache until they are added up."""

SORT_FROM = 32
"""Thresholds per row from which sorting the row is cheaper than comparing it with each."""

FEW = 1 / 1000
"""The share of images above a row's level; they are compared with every threshold."""

SPAN = 120
"""Neighbouring columns that are looked at together; most spans hold nothing above the level."""

ROWS_PICKED = 64
"""Rows that are picked from together, so that they are still in the second cache when they are compared."""

WORTH_PICKING = 3
"""Comparing a row with this many thresholds costs as much as picking out what is above the level."""

SAMPLE = 1000
"""Similarities per row from which its level is estimated; a poor estimate costs time only."""


class AtLeast:
    """Counts the values ≥ each threshold, row by row, over any number of blocks of columns.

    `thresholds` rise along each row (infinity for none); `sample` holds some of the values to come.
    Blocks are added with their rows in `order`; `counts` come in the order of `thresholds`.
    """

    def __init__(self, thresholds: Floats32, sample: Floats32) -> None:
        level = _level(sample)
        used = np.isfinite(thresholds).sum(axis=1)
        deep = (thresholds < level[:, None]).sum(axis=1)
        whole = used - deep <= WORTH_PICKING
        deep[whole] = used[whole]
        self.order = np.lexsort((deep, whole))
        self._deep = deep[self.order]
        self._thresholds, self._level = thresholds[self.order], level[self.order, None]
        picked = int((~whole).sum())
        self._passes = [*self._groups(0, picked, True), *self._groups(picked, len(deep), False)]
        self._compared = np.zeros(thresholds.shape, dtype=np.int64)
        self._reached = np.zeros((len(thresholds), thresholds.shape[1] + 1), dtype=np.int64)

    def _groups(self, start: int, stop: int, picked: bool) -> Iterator[tuple[slice, int, bool]]:
        """Neighbouring rows that share a pass, and how many thresholds each of them is compared with."""
        while stop > start:
            deep = int(self._deep[stop - 1])
            together = min(ROWS_PICKED, max(1, FLAG_BYTES // (max(deep, 1) * COLUMNS)))
            first = max(start, stop - together)
            if deep or picked:
                yield slice(first, stop), deep, picked
            stop = first

    def add(self, values: Floats32) -> None:
        """Count a block of columns."""
        for left in range(0, values.shape[1], COLUMNS):
            block = values[:, left : left + COLUMNS]
            for rows, deep, picked in self._passes:
                part, thresholds = block[rows], self._thresholds[rows]
                if picked:
                    self._pick(part, rows, *_above(part, self._level[rows]))
                if deep:
                    count = _by_sorting if deep >= SORT_FROM else _by_comparing
                    self._compared[rows, :deep] += count(part, thresholds[:, :deep])

    def _pick(self, block: Floats32, rows: slice, row: Ints, column: Ints) -> None:
        """For each value above its row's level, note how many thresholds it reaches."""
        reached = (block[row, column, None] >= self._thresholds[rows].take(row, axis=0)).sum(axis=1)
        cells = self._reached[rows]
        cells += np.bincount(row * cells.shape[1] + reached, minlength=cells.size).reshape(cells.shape)

    def counts(self) -> Ints:
        """How many values reached each threshold."""
        picked = self._reached[:, :0:-1].cumsum(axis=1)[:, ::-1]
        result = np.empty_like(picked)
        result[self.order] = np.where(np.arange(picked.shape[1]) < self._deep[:, None], self._compared, picked)
        return result


def _level(sample: Floats32) -> Floats32:
    sample = sample[:, :: max(1, sample.shape[1] // SAMPLE)]
    place = sample.shape[1] - 1 - int(FEW * sample.shape[1])
    level: Floats32 = np.partition(sample, place, axis=1)[:, place]
    return level


def _by_sorting(block: Floats32, thresholds: Floats32) -> Ints:
    below = torch.searchsorted(torch.from_numpy(np.sort(block, axis=1)), torch.from_numpy(thresholds.copy()))
    result: Ints = block.shape[1] - below.numpy()
    return result


def _by_comparing(block: Floats32, thresholds: Floats32) -> Ints:
    (rows, width), passes = block.shape, thresholds.shape[1]
    flags = _SCRATCH.flags(rows * passes * COLUMNS).reshape(rows, passes, COLUMNS)
    flags[:, :, width:] = False
    np.greater_equal(block[:, None], thresholds[:, :, None], out=flags[:, :, :width])
    words = flags.view(np.uint64).reshape(rows, passes, -1, LANE_LIMIT)
    sums: Ints = np.add.reduce(words, axis=-1).view(np.uint8).sum(axis=-1, dtype=np.int64)
    return sums


def _above(block: Floats32, level: Floats32) -> tuple[Ints, Ints]:
    """Row and column of each value ≥ its row's level: by the maximum of short spans, few of which need a closer look."""
    whole = block.shape[1] - block.shape[1] % SPAN
    spans = block[:, :whole].reshape(len(block), -1, SPAN)
    row, span = np.nonzero(torch.from_numpy(spans).amax(dim=2).numpy() >= level)
    hit, column = np.divmod(np.flatnonzero(spans[row, span] >= level[row]), SPAN)
    last_row, last_column = np.nonzero(block[:, whole:] >= level)
    return np.concatenate([row[hit], last_row]), np.concatenate([span[hit] * SPAN + column, whole + last_column])


class _Scratch(local):
    """Memory of each thread that is written again and again, and so stays in its cache."""

    def __init__(self) -> None:
        self._flags: Flags = np.empty(0, dtype=np.bool_)

    def flags(self, size: int) -> Flags:
        if self._flags.size < size:
            self._flags = np.empty(size, dtype=np.bool_)
        return self._flags[:size]


_SCRATCH = _Scratch()
