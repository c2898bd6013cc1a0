"""Approximate search in many vectors: an inverted file of faiss with half-precision or 8-bit codes.

Vectors are put into lists by their nearest centre; a query looks into the lists of the centres nearest to it. How many
lists is decided when it is built, on a sample: as few as find `WANTED` of the true first ten.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from prunnet._files import write_atomically
from prunnet._progress import track
from prunnet.errors import SearchError, first_line
from prunnet.search import engine
from prunnet.search.engine import Flags, Rows, Vectors
from prunnet.search.exact import blocks, search_blocks
from prunnet.search.manifest import ApproximateEntry, StoredFile
from prunnet.search.segment import Segment

WANTED = 0.97
"""Recall@10 on the sample."""
DISTANCE = 1.0
"""How much of another vector is mixed into each of the sample. The embeddings of an image by the dense and by a small
member have a cosine of about 0.7, and what is near to the one is not near to the other."""
FIRST = 10
SAMPLE = 256
ITERATIONS = 10
POINTS_PER_LIST = 64
LEAST_PER_LIST = 39
GROWTH = 4
"""An index is extended until it has so many times the vectors that its centres were found on, and then built anew."""


class Approximate:
    """An index of the first rows of a gallery, mapped into memory."""

    def __init__(self, file: Path, entry: ApproximateEntry) -> None:
        faiss = engine.faiss()
        self.entry = entry
        self._last: tuple[Flags, engine.Chosen, Any] | None = None
        try:
            self._index = faiss.read_index(str(file), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
            faiss.downcast_InvertedLists(self._index.invlists).prefetch_nthread = 0  # else each query starts threads
        except RuntimeError as error:
            raise SearchError(f"{file} cannot be read by faiss {faiss.__version__}: {first_line(error)}") from None

    def search(self, queries: Vectors, k: int, allowed: Flags | None) -> engine.Found:
        """Scores and rows `[queries, k]`; -1 where fewer were found.

        Where only some rows are `allowed`, the nearest of them are further away, and more lists are looked into.
        """
        if allowed is None:
            return engine.search(self._index, queries, k)
        last = self._last
        if last is None or last[0] is not allowed:
            self._last = last = (allowed, *self._options(allowed[: self.entry.rows]))
        return engine.search(self._index, queries, k, last[2])

    def _options(self, allowed: Flags) -> tuple[engine.Chosen, Any]:
        entry, chosen = self.entry, engine.Chosen(allowed)
        probes = min(entry.lists, math.ceil(entry.probes * entry.rows / max(1, int(allowed.sum()))))
        return chosen, engine.faiss().SearchParametersIVF(sel=chosen.selector, nprobe=probes)


def build(
    segments: Sequence[Segment], live: Flags, memory: float, file: Path, before: tuple[Path, ApproximateEntry] | None
) -> ApproximateEntry:
    """Write an index of all `live` rows to `file`: that `before` with what came since, or a new one.

    memory: bound of its bytes; half precision if it fits, 8 bits otherwise.
    """
    faiss = engine.faiss()
    count, dimension = int(live.sum()), segments[0].vectors.shape[1]
    codes: Literal["fp16", "int8"] = "fp16" if count * (2 * dimension + 8) <= memory else "int8"
    if before is not None and before[1].codes == codes and count <= GROWTH * before[1].trained_on:
        index, start, trained_on = faiss.read_index(str(before[0])), before[1].rows, before[1].trained_on
    else:
        index, start, trained_on = _trained(segments, live, codes), 0, count
    for vectors, rows in track(list(_chunks(segments, live, start)), "indexing vectors"):
        index.add_with_ids(vectors, rows)
    probes, recall, sample = _measured(index, segments, live)
    index.nprobe = probes
    with write_atomically(file) as temporary:
        try:
            faiss.write_index(index, str(temporary))
        except RuntimeError as error:
            raise OSError(f"{file} cannot be written: {first_line(error)}") from None
        stored = StoredFile.of(temporary, file.name)
    return ApproximateEntry(
        file=stored,
        rows=len(live),
        trained_on=trained_on,
        codes=codes,
        lists=index.nlist,
        probes=probes,
        recall=recall,
        sample=sample,
    )


def lists_for(count: int) -> int:
    """About four times the root of the number of vectors, a power of two; in a list of few there would be little to
    find its centre by.
    """
    return int(min(2 ** round(math.log2(4 * math.sqrt(count))), max(1, count // LEAST_PER_LIST)))


def _trained(segments: Sequence[Segment], live: Flags, codes: str) -> Any:
    faiss = engine.faiss()
    rows = np.flatnonzero(live)
    dimension, lists = segments[0].vectors.shape[1], lists_for(len(rows))
    kind = f"IVF{lists},{'SQfp16' if codes == 'fp16' else 'SQ8'}"
    index = faiss.index_factory(dimension, kind, faiss.METRIC_INNER_PRODUCT)
    index.cp.niter = ITERATIONS
    index.cp.max_points_per_centroid = POINTS_PER_LIST
    index.train(rows_of(segments, _spread(rows, POINTS_PER_LIST * lists)))
    return index


def _chunks(segments: Sequence[Segment], live: Flags, start: int) -> Iterator[tuple[Vectors, Rows]]:
    for vectors, rows in blocks(segments, live, start):
        yield vectors.numpy(), rows.numpy()


def _measured(index: Any, segments: Sequence[Segment], live: Flags) -> tuple[int, float, int]:
    """How many lists to look into, and what share of the true first ten that finds for queries of a small member, which
    are imitated by vectors of the gallery, each with another one mixed in.
    """
    sample = rows_of(segments, _spread(np.flatnonzero(live), SAMPLE))
    mixed = sample + DISTANCE * np.roll(sample, len(sample) // 2, axis=0)
    queries = torch.nn.functional.normalize(torch.from_numpy(mixed))
    _, true = search_blocks(queries, blocks(segments, live), FIRST)

    def recall(probes: int) -> float:
        index.nprobe = probes
        return recall_of(engine.search(index, queries.numpy(), FIRST)[1], true.numpy())

    most = 1
    while most < index.nlist and recall(most) < WANTED:
        most = min(2 * most, index.nlist)
    few, probes = most // 2, most  # too few, and enough
    while probes - few > 1 + few // 16:
        middle = (few + probes) // 2
        few, probes = (few, middle) if recall(middle) >= WANTED else (middle, probes)
    return probes, recall(probes), len(sample)


def recall_of(found: Rows, true: Rows) -> float:
    """The share of the true neighbours that were found."""
    pairs = zip(found.tolist(), true.tolist(), strict=True)
    return float(np.mean([len({*answers} & {*right}) / max(1, len(right)) for answers, right in pairs]))


def rows_of(segments: Sequence[Segment], rows: Rows) -> Vectors:
    """The vectors of these rows, which are in rising order."""
    parts, first = [], 0
    for segment in segments:
        here = rows[(rows >= first) & (rows < first + len(segment))] - first
        parts.append(segment.vectors[here])
        first += len(segment)
    return np.concatenate(parts)


def _spread(rows: Rows, count: int) -> Rows:
    """At most `count` of them, evenly spaced."""
    if len(rows) <= count:
        return rows
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]
