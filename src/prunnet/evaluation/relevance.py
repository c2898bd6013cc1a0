"""Which gallery images answer a query, which are ignored, and how many wrong ones come before each right one.

Ties are read pessimistically: a wrong image as similar as a right one counts as ranked before it. So a score depends
neither on the order of the gallery nor on a sort, and a network that embeds everything alike scores as badly as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prunnet.data import UNLABELLED, RetrievalData
from prunnet.errors import EvaluationError
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
    rule, query, gallery = data.protocol, data.query, data.gallery
    if rule.ground_truth is not None:
        return TruthRelevance(rule.ground_truth, len(gallery))
    cameras = (query.cameras, gallery.cameras) if rule.camera_junk else (None, None)
    return LabelRelevance(query.labels, gallery.labels, *cameras, rule.same_set, rule.distractor_label)


class LabelRelevance:
    """Gallery images of the query's label answer it, except itself (`same_set`) and those of its own camera (junk)."""

    def __init__(
        self,
        query_labels: Ints,
        gallery_labels: Ints,
        query_cameras: Ints | None = None,
        gallery_cameras: Ints | None = None,
        same_set: bool = False,
        distractor_label: int = UNLABELLED,
    ) -> None:
        self.queries, self.gallery, self.same_set = len(query_labels), len(gallery_labels), same_set
        if same_set and self.queries != self.gallery:
            raise EvaluationError(f"one set for both, yet {self.queries} queries and {self.gallery} gallery images")
        self._cameras = None if query_cameras is None or gallery_cameras is None else (query_cameras, gallery_cameras)
        classes, sizes = np.unique(gallery_labels[gallery_labels != distractor_label], return_counts=True)
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
        right = columns < last
        columns = np.minimum(columns, last - 1)
        asked, found = self.query_order[rows, None], self.gallery_order[columns]
        if self.same_set:
            right &= found != asked
        if self._cameras is not None:
            right &= self._cameras[1][found] != self._cameras[0][asked]

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
    """Answers listed per query: gallery indices under `easy`, `hard` and `junk`, or under `positives`."""

    def __init__(self, ground_truth: Sequence[Mapping[str, Sequence[int]]], gallery: int) -> None:
        self.queries, self.gallery = len(ground_truth), gallery
        self._answers: list[Ints] = []
        self._hard: list[npt.NDArray[np.bool_]] = []
        self._junk: list[Ints] = []
        for number, truth in enumerate(ground_truth):
            easy, hard, junk = (
                np.unique(np.concatenate([np.asarray(truth.get(key, ()), dtype=np.int64) for key in keys]))
                for keys in (("easy", "positives"), ("hard",), ("junk",))
            )
            answers = np.concatenate([easy, hard])
            listed = np.concatenate([answers, junk])
            if listed.size and not 0 <= listed.min() <= listed.max() < gallery:
                raise EvaluationError(f"the ground truth of query {number} names an image outside 0 … {gallery - 1}")
            self._answers.append(answers)
            self._hard.append(np.arange(len(answers)) >= len(easy))
            self._junk.append(junk)

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
        answers, junk = self._answers[rows], self._junk[rows]
        widest = max(1, *map(len, answers))
        counts = np.full((len(answers), widest), ABSENT, dtype=np.int64)
        hard = np.zeros(counts.shape, dtype=np.bool_)
        for row, similarity in enumerate((query @ gallery.T).numpy()):
            used = len(answers[row])
            if not used:
                continue
            thresholds = similarity[answers[row]]
            similarity[answers[row]] = -np.inf
            similarity[junk[row]] = -np.inf
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
