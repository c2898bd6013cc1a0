import numpy as np
import pytest

from prunnet.evaluation.counting import COLUMNS, SORT_FROM, add_reaching


@pytest.mark.parametrize("width", [1, 7, COLUMNS - 1, COLUMNS, COLUMNS + 1, 2 * COLUMNS + 13])
@pytest.mark.parametrize("positives", [1, 5, SORT_FROM - 1, SORT_FROM, 40])
def test_counts_what_a_comparison_counts(width: int, positives: int) -> None:
    generator = np.random.default_rng(width + positives)
    values = generator.integers(-20, 20, (40, width)).astype(np.float32)  # many ties
    thresholds = generator.integers(-21, 22, (40, positives)).astype(np.float32)
    thresholds[0, 0], values[1, 0] = np.inf, -np.inf
    reaching = (values[:, None] >= thresholds[:, :, None]).sum(axis=-1)
    counts = np.full(thresholds.shape, 3)
    add_reaching(counts, values, thresholds)
    assert (counts == 3 + reaching).all()
    add_reaching(counts, values[:, :1], thresholds)
    assert (counts == 3 + reaching + (values[:, :1] >= thresholds)).all(), "scratch memory must not carry over"


def test_a_row_that_reaches_the_threshold_everywhere_does_not_overflow_its_bytes() -> None:
    counts = np.zeros((2, 1), dtype=np.int64)
    add_reaching(counts, np.ones((2, 3 * COLUMNS), dtype=np.float32), np.zeros((2, 1), dtype=np.float32))
    assert (counts == 3 * COLUMNS).all()
