"""How many wrong gallery images come before each right one; which are right or ignored is `prunnet.data.answers`' rule.

Ties are read pessimistically: a wrong image as similar as a right one counts as ranked before it. So a score depends
neither on the order of the gallery nor on a sort, and a network that embeds everything alike scores as badly as it is.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prunnet.data import UNLABELLED, RetrievalData
from prunnet.data.retrieval import LabelAnswers, ListedAnswers, answers_of
from prunnet.evaluation.counting import COLUMNS, Floats32, Ints, add_reaching

Floats = npt.NDArray[np.float64]

ABSENT = np.iinfo(np.int64).max
"""In place of a count where a query has fewer right images than its neighbours; sorts last."""

ROWS = 512  # queries per matrix product: fewer slow it down, more leave the last cache


class Before(NamedTuple):
    """For some queries (rows) and each image that answers them: the number of wrong images before it, or `ABSENT`.

    `hard` says which answers are hard, where the ground truth tells.
    """

    counts: Ints
    hard: npt.NDArray[np.bool_] | None = None


Measure = Callable[[Before], Floats]
"""Scores `[metrics, queries]` of some queries; NaN where nothing answers the query."""


class Relevance(Protocol):
    """What a protocol says about every pair of a query and a gallery image."""

    queries: int
    gallery: int

    def arrange(self, gallery: Tensor) -> Tensor:
        """The gallery's vectors in the order `measure` wants them; worth keeping for several queries' networks."""

    def measure(self, query: Tensor, arranged: Tensor, measure: Measure, metrics: int, memory: float) -> Floats:
        """Scores `[metrics, queries]`, computed by chunks that together stay within `memory` bytes."""


def relevance_of(data: RetrievalData) -> Relevance:
    """What the protocol of `data` says."""
    answers = answers_of(data)
    return LabelRelevance(answers) if isinstance(answers, LabelAnswers) else TruthRelevance(answers)


class LabelRelevance:
    """Answers by label: what is right or ignored for a query is among the gallery images of its class."""

    def __init__(self, answers: LabelAnswers) -> None:
        self.queries, self.gallery, self._answers = answers.queries, answers.gallery, answers
        query_labels, gallery_labels = answers.query_labels, answers.gallery_labels
        classes, sizes = np.unique(gallery_labels[gallery_labels != UNLABELLED], return_counts=True)
        asked = np.flatnonzero(np.isin(classes, query_labels))
        # The gallery class by class makes the answers to neighbouring queries one short range of columns, apart from
        # which every column is wrong for all of them; classes by size give neighbours about as many answers.
        by_size = classes[asked[np.argsort(sizes[asked], kind="stable")]]
        places = _places(gallery_labels, by_size)
        self.gallery_order = np.argsort(places, kind="stable")
        asking = _places(query_labels, by_size)
        order = np.argsort(asking, kind="stable")
        self.query_order = order[asking[order] < len(by_size)]
        edges = np.searchsorted(places[self.gallery_order], np.arange(len(by_size) + 1))
        self.first, self.last = edges[asking[self.query_order]], edges[asking[self.query_order] + 1]

    def arrange(self, gallery: Tensor) -> Tensor:
        return gallery[torch.from_numpy(self.gallery_order)]

    def measure(self, query: Tensor, arranged: Tensor, measure: Measure, metrics: int, memory: float) -> Floats:
        query = query[torch.from_numpy(self.query_order)]
        values = np.full((metrics, self.queries), np.nan)

        def work(rows: slice) -> None:
            values[:, self.query_order[rows]] = measure(self._before(query[rows], arranged, rows))

        _in_threads(work, self._chunks(memory / torch.get_num_threads()))
        return values

    def _chunks(self, memory: float) -> list[slice]:
        total, threads = len(self.query_order), torch.get_num_threads()
        even = -(-total // (threads * -(-total // (threads * ROWS)))) if total else 1  # all threads end together
        chunks, start = [], 0
        while start < total:
            stop = min(start + even, total)
            while stop - start > 1 and self._bytes(start, stop) > memory:
                stop = start + (stop - start) // 2
            chunks.append(slice(start, stop))
            start = stop
        return chunks

    def _bytes(self, start: int, stop: int) -> int:
        near = int(self.last[stop - 1] - self.first[start])
        answers = int((self.last[start:stop] - self.first[start:stop]).max())
        return (stop - start) * (4 * COLUMNS + 8 * near + 64 * answers)

    def _before(self, query: Tensor, gallery: Tensor, rows: slice) -> Before:
        first, last = self.first[rows, None], self.last[rows, None]
        near = slice(int(first[0, 0]), int(last[-1, 0]))
        columns = first + np.arange((last - first).max())
        present = columns < last
        columns = np.minimum(columns, last - 1)
        right = present & self._answers.right(self.query_order[rows, None], self.gallery_order[columns])

        similarity = (query @ gallery[near].T).numpy()
        own = np.take_along_axis(similarity, columns - near.start, axis=1)
        thresholds = np.where(right, own, np.float32(np.inf))
        np.put_along_axis(similarity, columns - near.start, -np.inf, axis=1)
        counts = np.zeros(right.shape, dtype=np.int64)
        add_reaching(counts, similarity, thresholds)
        for start, stop in ((0, near.start), (near.stop, len(gallery))):
            for left in range(start, stop, COLUMNS):
                block = gallery[left : min(left + COLUMNS, stop)]
                add_reaching(counts, _SCRATCH.similarity(query, block), thresholds)
        counts[~right] = ABSENT
        return Before(counts)


class TruthRelevance:
    """Answers listed per query."""

    def __init__(self, answers: ListedAnswers) -> None:
        self.queries, self.gallery = answers.queries, answers.gallery
        self._right: list[Ints] = []
        self._hard: list[npt.NDArray[np.bool_]] = []
        self._ignored: list[Ints] = []
        for number in range(answers.queries):
            query, listed = np.array(number), answers.listed(number)
            right = listed[answers.right(query, listed)]
            self._right.append(right)
            self._hard.append(answers.hard(query, right))
            self._ignored.append(listed[answers.ignored(query, listed)])

    def arrange(self, gallery: Tensor) -> Tensor:
        return gallery

    def measure(self, query: Tensor, arranged: Tensor, measure: Measure, metrics: int, memory: float) -> Floats:
        values = np.full((metrics, self.queries), np.nan)

        def work(rows: slice) -> None:
            values[:, rows] = measure(self._before(query[rows], arranged, rows))

        step = int(np.clip(memory / torch.get_num_threads() // (8 * self.gallery), 1, 64))
        _in_threads(work, [slice(start, start + step) for start in range(0, self.queries, step)])
        return values

    def _before(self, query: Tensor, gallery: Tensor, rows: slice) -> Before:
        answers, ignored = self._right[rows], self._ignored[rows]
        widest = max(1, *map(len, answers))
        counts = np.full((len(answers), widest), ABSENT, dtype=np.int64)
        hard = np.zeros(counts.shape, dtype=np.bool_)
        for row, similarity in enumerate((query @ gallery.T).numpy()):
            used = len(answers[row])
            if not used:
                continue
            thresholds = similarity[answers[row]]
            similarity[answers[row]] = -np.inf
            similarity[ignored[row]] = -np.inf
            counts[row, :used] = 0
            add_reaching(counts[row : row + 1, :used], similarity[None], thresholds[None])
            hard[row, :used] = self._hard[rows][row]
        return Before(counts, hard)


class _Scratch(local):
    """Per thread one block of similarities, written again and again, and so kept in its cache."""

    def __init__(self) -> None:
        self._block = torch.empty(0)

    def similarity(self, query: Tensor, gallery: Tensor) -> Floats32:
        rows, columns = len(query), len(gallery)
        if self._block.numel() < rows * columns:
            self._block = torch.empty(rows * columns)
        block = self._block[: rows * columns].view(rows, columns)
        result: Floats32 = torch.mm(query, gallery.T, out=block).numpy()
        return result


_SCRATCH = _Scratch()


def _places(labels: Ints, classes: Ints) -> Ints:
    """The position of each label in `classes`, or their number where it is not among them."""
    if not len(classes):
        return np.zeros(len(labels), dtype=np.int64)
    order = np.argsort(classes)
    nearest = order[np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)]
    return np.where(classes[nearest] == labels, nearest, len(classes))


def _in_threads(work: Callable[[slice], None], chunks: Sequence[slice]) -> None:
    """One chunk per thread at a time, each with its own matrix product, so that similarities stay in its cache."""
    threads = torch.get_num_threads()
    options: dict[str, Any] = {"initializer": torch.set_num_threads, "initargs": (1,)}
    try:
        with ThreadPoolExecutor(threads, **options) as pool:
            for _ in pool.map(work, chunks):
                pass
    finally:
        torch.set_num_threads(threads)  # the workers' setting is the process's
