"""The revisited Oxford and Paris protocol: one ranking, scored at three levels of difficulty.

Easy looks for the easy images and ignores hard and junk ones; Medium looks for easy and hard ones and ignores junk;
Hard looks for the hard ones and ignores easy and junk. Ignored images are taken out of the ranking.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from prunnet.errors import EvaluationError
from prunnet.evaluation.counting import Ints
from prunnet.evaluation.metrics import Level, trapezoid_precision

LEVELS: dict[Level, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}
"""Level → keys of the images looked for, keys of the images ignored."""


def revisited_map(
    ranks: npt.ArrayLike, ground_truth: Sequence[Mapping[str, Sequence[int]]], at: Sequence[int] = (1, 5, 10)
) -> dict[Level, dict[str, float]]:
    """`mAP` and `mP@k` at each level.

    `ranks[:, q]` lists database indices for query q, best first. Queries without an image to find at a level are left
    out of its mean; a level at which no query has one is NaN.
    """
    order = np.asarray(ranks)
    if order.ndim != 2 or order.shape[1] != len(ground_truth):
        raise EvaluationError(
            f"ranks has shape {order.shape}; expected one column for each of {len(ground_truth)} queries"
        )
    results: dict[Level, dict[str, float]] = {}
    for level, (wanted, ignored) in LEVELS.items():
        scores = []
        for column, truth in zip(order.T, ground_truth, strict=True):
            answers = _listed(truth, wanted)
            if answers.size:
                places = _ranks_without(column, answers, _listed(truth, ignored))
                precision = trapezoid_precision(places[None], np.array([answers.size]))[0]
                scores.append([precision, *(_precision_at(places, k) for k in at)])
        means = np.mean(scores, axis=0) if scores else np.full(1 + len(at), np.nan)
        names = ["mAP", *(f"mP@{k}" for k in at)]
        results[level] = {name: float(mean) for name, mean in zip(names, means, strict=True)}
    return results


def _listed(truth: Mapping[str, Sequence[int]], keys: Sequence[str]) -> Ints:
    return np.unique(np.concatenate([np.asarray(truth.get(key, ()), dtype=np.int64) for key in keys]))


def _ranks_without(order: npt.NDArray[np.integer], answers: Ints, junk: Ints) -> Ints:
    """Ranks of the answers from 1, once junk is taken out."""
    places = np.flatnonzero(np.isin(order, answers))
    ignored = np.cumsum(np.isin(order, junk))
    return np.asarray(places + 1 - ignored[places], dtype=np.int64)


def _precision_at(ranks: Ints, k: int) -> float:
    """As published: past the last answer nothing can be found, so a list whose answers end before k ends there."""
    if not ranks.size:
        return 0.0
    length = min(int(ranks.max()), k)
    return int((ranks <= length).sum()) / length
