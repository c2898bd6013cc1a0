import numpy as np
import pytest

from prunnet.errors import EvaluationError
from prunnet.evaluation import CompatibilityMatrix, Model


def matrix(per_query: np.ndarray) -> CompatibilityMatrix:
    models = tuple(Model(capacity, "a") for capacity in (1.0, 0.5))
    return CompatibilityMatrix(models, per_query.mean(-1), "mAP", "x", per_query.shape[-1], per_query=per_query)


def test_interval_has_the_width_theory_gives_it() -> None:
    generator = np.random.default_rng(0)
    per_query = generator.uniform(0, 1, (2, 2, 4000))
    bounds = matrix(per_query).bootstrap(2000, confidence=0.95).intervals
    half = 1.96 * per_query.std(-1) / np.sqrt(4000)
    np.testing.assert_allclose(bounds.upper - per_query.mean(-1), half, rtol=0.12)
    np.testing.assert_allclose(per_query.mean(-1) - bounds.lower, half, rtol=0.12)


def test_margins_are_paired() -> None:
    self_test = np.random.default_rng(1).uniform(0, 0.9, 500)
    per_query = np.stack([np.stack([self_test + 0.05, self_test - 0.02]), np.stack([self_test + 0.01, self_test])])
    measured = matrix(per_query).bootstrap(300)
    np.testing.assert_allclose(measured.intervals.margin_lower, [[0, -0.02], [0.01, 0]], atol=1e-12)
    np.testing.assert_allclose(measured.intervals.margin_upper, [[0, -0.02], [0.01, 0]], atol=1e-12)
    assert (measured.intervals.upper - measured.intervals.lower > 0.03).all()
    assert "(margin -2.00 … -2.00)" in str(measured.check())


def test_same_seed_same_intervals() -> None:
    subject = matrix(np.random.default_rng(2).uniform(0, 1, (2, 2, 50)))
    first, again, other = subject.bootstrap(300), subject.bootstrap(300), subject.bootstrap(300, seed=1)
    assert first.to_json() == again.to_json() != other.to_json()
    assert "±" in first.to_markdown()


def test_what_cannot_be_resampled_is_refused() -> None:
    subject = matrix(np.zeros((2, 2, 5)))
    with pytest.raises(EvaluationError, match="at least 2 samples, not 1"):
        subject.bootstrap(1)
    with pytest.raises(EvaluationError, match="between 0 and 1, not 95"):
        subject.bootstrap(100, confidence=95)
