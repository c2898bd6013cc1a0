"""Exact search: every vector is compared."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from prunnet.search import engine
from prunnet.search.engine import Flags
from prunnet.search.segment import Segment

BLOCK = 2**14  # rows compared at once: with 64 queries their similarities stay in the cache
QUERIES = 256
FEW = 20  # queries, for which the loops of faiss are faster than a matrix product
MOST_IN_HEAP = 128

Block = tuple[Tensor, Tensor]
"""Vectors and the numbers of their rows."""


def search_segments(
    queries: Tensor, segments: Sequence[Segment], k: int, allowed: Flags | None = None, start: int = 0
) -> engine.Found:
    """Scores and rows `[queries, at most k]` of the nearest from row `start` on that are `allowed`, nearest first; of
    equals the older first. Row -1 stands where there are fewer.
    """
    if len(queries) >= FEW or not 0 < k <= MOST_IN_HEAP or not engine.installed():
        best, where = search_blocks(queries, blocks(segments, allowed, start), k)
        return best.numpy(), where.numpy()
    found, first = list[engine.Found](), 0
    for segment in segments:
        low, last = max(first, start), first + len(segment)
        if low < last:
            here = None if allowed is None or allowed[low:last].all() else allowed[low:last]
            scores, places = engine.compare(queries.numpy(), segment.vectors[low - first :], k, here)
            found.append((scores, np.where(places < 0, places, places + low)))
        first = last
    return first_of(found, k)


def first_of(found: Sequence[engine.Found], k: int) -> engine.Found:
    """At most `k` of all that were found, in order."""
    scores, rows = (np.concatenate(parts, axis=1) for parts in zip(*found, strict=True))
    best, where = in_order(torch.from_numpy(scores), torch.from_numpy(rows))
    return best.numpy()[:, :k], where.numpy()[:, :k]


def blocks(segments: Iterable[Segment], allowed: Flags | None = None, start: int = 0) -> Iterator[Block]:
    """The vectors from row `start` on, of rows that are `allowed`."""
    first = 0
    for segment in segments:
        last = first + len(segment)
        for low in range(max(first, start), last, BLOCK):
            high = min(low + BLOCK, last)
            vectors = torch.from_numpy(segment.vectors[low - first : high - first])
            rows = torch.arange(low, high)
            if allowed is not None and not (here := allowed[low:high]).all():
                kept = torch.from_numpy(np.flatnonzero(here))
                vectors, rows = vectors[kept], rows[kept]
            if len(rows):
                yield vectors, rows
        first = last


def search_blocks(queries: Tensor, found: Iterable[Block], k: int) -> Block:
    """The same among the vectors of blocks, by matrix products."""
    best, where = torch.empty(len(queries), 0), torch.empty(len(queries), 0, dtype=torch.int64)
    for vectors, rows in found:
        parts = [
            _first(queries[low : low + QUERIES], vectors, rows, k) for low in range(0, max(1, len(queries)), QUERIES)
        ]
        best = torch.cat([best, torch.cat([scores for scores, _ in parts])], dim=1)
        where = torch.cat([where, torch.cat([places for _, places in parts])], dim=1)
        if best.shape[1] > k:
            best, chosen = best.topk(k, dim=1)
            where = where.gather(1, chosen)
    return in_order(best, where)


def _first(queries: Tensor, vectors: Tensor, rows: Tensor, k: int) -> Block:
    scores = queries @ vectors.T
    if len(rows) > k:
        scores, chosen = scores.topk(k, dim=1)
        return scores, rows[chosen]
    return scores, rows.expand(len(queries), -1)


def in_order(scores: Tensor, rows: Tensor) -> Block:
    """Nearest first, and among equals by row."""
    by_row = rows.argsort(dim=1)
    scores, rows = scores.gather(1, by_row), rows.gather(1, by_row)
    order = scores.argsort(dim=1, descending=True, stable=True)
    return scores.gather(1, order), rows.gather(1, order)
