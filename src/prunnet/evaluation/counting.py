"""How many similarities of a row reach each of the row's thresholds.

The rank of an answer is one plus the number of images before it, so a metric over a whole gallery needs such counts and
no sort. Comparing a row with a threshold and adding up costs some three per cent of the 256-dimensional product.
"""

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


def add_reaching(counts: Ints, values: Floats32, thresholds: Floats32) -> None:
    """Add to `counts[b, p]` how many of `values[b]` are at least `thresholds[b, p]`."""
    if thresholds.shape[1] >= SORT_FROM:
        below = torch.searchsorted(torch.from_numpy(np.sort(values, axis=1)), torch.from_numpy(thresholds))
        counts += values.shape[1] - below.numpy()
        return
    rows = max(1, FLAG_BYTES // (thresholds.shape[1] * COLUMNS))
    for left in range(0, values.shape[1], COLUMNS):
        for top in range(0, len(values), rows):
            part = slice(top, top + rows)
            counts[part] += _compare(values[part, left : left + COLUMNS], thresholds[part])


def _compare(values: Floats32, thresholds: Floats32) -> Ints:
    (rows, width), passes = values.shape, thresholds.shape[1]
    flags = _SCRATCH.flags(rows * passes * COLUMNS).reshape(rows, passes, COLUMNS)
    flags[:, :, width:] = False
    np.greater_equal(values[:, None], thresholds[:, :, None], out=flags[:, :, :width])
    words = flags.view(np.uint64).reshape(rows, passes, -1, LANE_LIMIT)
    sums: Ints = np.add.reduce(words, axis=-1).view(np.uint8).sum(axis=-1, dtype=np.int64)
    return sums


class _Scratch(local):
    """Memory of each thread that is written again and again, and so stays in its cache."""

    def __init__(self) -> None:
        self._flags: Flags = np.empty(0, dtype=np.bool_)

    def flags(self, size: int) -> Flags:
        if self._flags.size < size:
            self._flags = np.empty(size, dtype=np.bool_)
        return self._flags[:size]


_SCRATCH = _Scratch()
