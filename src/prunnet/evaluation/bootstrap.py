"""Confidence intervals over queries: would the matrix look the same with other queries of the same kind?"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from prunnet.errors import EvaluationError
from prunnet.evaluation.relevance import Floats

AT_ONCE = 256  # resamples held in memory together


@dataclass(frozen=True, eq=False)
class Intervals:
    """Bounds `[models, models]` of each figure, and of its margin over the self-test it is checked against."""

    confidence: float
    samples: int
    lower: Floats
    upper: Floats
    margin_lower: Floats
    margin_upper: Floats

    def as_lists(self) -> dict[str, Any]:
        """For JSON."""
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in vars(self).items()}

    @classmethod
    def from_lists(cls, content: dict[str, Any]) -> "Intervals":
        """What `as_lists` gave."""
        bounds = ("lower", "upper", "margin_lower", "margin_upper")
        arrays = (np.array(content[key], dtype=np.float64) for key in bounds)
        return cls(float(content["confidence"]), int(content["samples"]), *arrays)


def bootstrap_intervals(
    per_query: Floats, reference: Floats, samples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Intervals:
    """Percentile bootstrap of `per_query` `[models, models, queries]`.

    Every resample of queries is applied to all pairs at once, so margins between pairs keep their pairing.
    `reference[i, j]` is the model whose self-test the pair (i, j) has to reach.
    """
    if samples < 2:
        raise EvaluationError(f"a bootstrap needs at least 2 samples, not {samples}")
    if not 0 < confidence < 1:
        raise EvaluationError(f"confidence must lie between 0 and 1, not {confidence:g}")
    models, queries = per_query.shape[0], per_query.shape[-1]
    flat = per_query.reshape(-1, queries)
    generator = np.random.default_rng(seed)
    means = []
    for start in range(0, samples, AT_ONCE):
        count = min(AT_ONCE, samples - start)
        times_drawn = generator.multinomial(queries, np.full(queries, 1 / queries), size=count)
        means.append(times_drawn @ flat.T / queries)
    drawn = np.concatenate(means).reshape(samples, models, models)
    margins = drawn - drawn[:, reference, reference]
    tail = (1 - confidence) / 2
    lower, upper = np.quantile(drawn, (tail, 1 - tail), axis=0)
    margin_lower, margin_upper = np.quantile(margins, (tail, 1 - tail), axis=0)
    return Intervals(confidence, samples, lower, upper, margin_lower, margin_upper)
