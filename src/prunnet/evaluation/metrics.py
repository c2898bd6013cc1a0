"""Retrieval metrics, each a function of the ranks at which a query's answers stand.

`ranks[b]` holds the ranks (from 1, junk left out) of query b's answers in rising order, then `ABSENT`;
`answers[b]` is how many answers there are. A query nothing answers scores NaN.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from torch import Tensor

from prunnet.costs.quantities import parse_quantity
from prunnet.errors import DivergedError, EvaluationError
from prunnet.evaluation.counting import Ints
from prunnet.evaluation.relevance import ABSENT, Before, Floats, Relevance

Level = Literal["easy", "medium", "hard"]
KNOWN = "mAP, mAP@k, Recall@k, CMC@k, MAP@R, R-Precision, revisited, revisited-easy, revisited-medium, revisited-hard"


def average_precision(ranks: Ints, answers: Ints, at: int | None = None) -> Floats:
    """Mean of the precision at each answer; with `at`, over the first `at` ranks and divided by min(answers, at)."""
    limit = ABSENT - 1 if at is None else at
    precision = np.arange(1, ranks.shape[1] + 1) / ranks
    total = np.where(ranks <= limit, precision, 0.0).sum(axis=1)
    return _over(total, np.minimum(answers, limit))


def recall_at(ranks: Ints, answers: Ints, at: int) -> Floats:
    """1 where any answer is among the first `at` (in metric learning Recall@k, in re-identification CMC at rank k)."""
    return np.where(answers > 0, (ranks[:, 0] <= at).astype(np.float64), np.nan)


def average_precision_at_r(ranks: Ints, answers: Ints) -> Floats:
    """MAP@R: precision at each answer within the first R ranks, over R, R being the number of answers."""
    precision = np.arange(1, ranks.shape[1] + 1) / ranks
    return _over(np.where(ranks <= answers[:, None], precision, 0.0).sum(axis=1), answers)


def r_precision(ranks: Ints, answers: Ints) -> Floats:
    """The share of answers among the first R ranks, R being the number of answers."""
    return _over((ranks <= answers[:, None]).sum(axis=1).astype(np.float64), answers)


def trapezoid_precision(ranks: Ints, answers: Ints) -> Floats:
    """The area under precision over recall by trapezoids, as the revisited Oxford and Paris benchmarks compute it."""
    before = np.arange(ranks.shape[1], dtype=np.float64)
    at_rank = (before + 1) / ranks
    just_above = np.where(ranks == 1, 1.0, before / np.maximum(ranks - 1, 1))
    return _over(np.where(ranks < ABSENT, (at_rank + just_above) / 2, 0.0).sum(axis=1), answers)


def _over(total: Floats, answers: Ints) -> Floats:
    return np.where(answers > 0, total / np.maximum(answers, 1), np.nan)


@dataclass(frozen=True)
class Metric:
    """A metric by name; `level` picks among graded answers, where easy and hard together are medium."""

    name: str
    function: Callable[[Ints, Ints], Floats]
    level: Level = "medium"

    @classmethod
    def parse(cls, name: str) -> "Metric":
        """`mAP`, `mAP@100`, `Recall@1`, `CMC@5`, `MAP@R`, `R-Precision`, `revisited` (medium), `revisited-hard`, …"""
        plain = {"mAP": average_precision, "MAP@R": average_precision_at_r, "R-Precision": r_precision}
        if name in plain:
            return cls(name, plain[name])
        if match := re.fullmatch(r"(mAP|Recall|CMC)@([1-9]\d*)", name):
            at = int(match[2])
            if match[1] == "mAP":
                return cls(name, lambda ranks, answers: average_precision(ranks, answers, at))
            return cls(name, lambda ranks, answers: recall_at(ranks, answers, at))
        for level in ("easy", "medium", "hard"):
            if name == f"revisited-{level}" or (name == "revisited" and level == "medium"):
                return cls(name, trapezoid_precision, level)
        raise EvaluationError(f"unknown metric {name!r}: choose one of {KNOWN}")

    def __call__(self, before: Before) -> Floats:
        """The score of each query."""
        counts = before.counts
        if self.level != "medium":
            if before.hard is None:
                raise EvaluationError(f"{self.name} needs a ground truth that tells easy from hard answers")
            counts = np.where(before.hard == (self.level == "hard"), counts, ABSENT)
        counts = np.sort(counts, axis=1)
        present = counts < ABSENT
        # the k-th answer stands after the wrong images before it and k − 1 other answers
        ranks = np.where(present, counts + np.arange(1, counts.shape[1] + 1) * present, ABSENT)
        return self.function(ranks, present.sum(axis=1))


def score(
    query: Tensor, gallery: Tensor, relevance: Relevance, metrics: Sequence[str] = ("mAP",), memory: str | float = "1GB"
) -> dict[str, Floats]:
    """Score of every query under each metric, NaN where nothing answers it; take `np.nanmean` for the usual figure.

    `query` and `gallery` are vectors `[n, d]`, compared by inner product. Beside them and one reordered copy of the
    gallery, `memory` bounds what is used, whatever the number of queries and gallery images.
    """
    parsed = [Metric.parse(name) for name in metrics]
    check_vectors(query, relevance.queries, "query")
    check_vectors(gallery, relevance.gallery, "gallery")
    if query.shape[1] != gallery.shape[1]:
        raise EvaluationError(f"queries have {query.shape[1]} dimensions, the gallery has {gallery.shape[1]}")
    values = score_arranged(query, relevance.arrange(gallery), relevance, parsed, memory)
    return dict(zip(metrics, values, strict=True))


def score_arranged(
    query: Tensor, arranged: Tensor, relevance: Relevance, metrics: Sequence[Metric], memory: str | float
) -> Floats:
    """Scores `[metrics, queries]` against a gallery in the order `relevance.arrange` gives it."""

    def measure(before: Before) -> Floats:
        return np.stack([metric(before) for metric in metrics])

    return relevance.measure(query, arranged, measure, len(metrics), parse_quantity(memory, "B"))


def check_vectors(vectors: Tensor, expected: int, part: str) -> None:
    """Refuse what would be scored silently wrong."""
    if vectors.ndim != 2 or len(vectors) != expected:
        raise EvaluationError(f"{expected} {part} vectors expected, found a tensor of shape {tuple(vectors.shape)}")
    if not vectors.isfinite().all():
        bad = int((~vectors.isfinite().all(dim=1)).sum())
        raise DivergedError(f"{bad} of {expected} {part} vectors hold NaN or infinity; the network has diverged")
