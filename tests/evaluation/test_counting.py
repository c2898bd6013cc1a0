import numpy as np
import pytest

from prunnet.evaluation.counting import COLUMNS, SORT_FROM, AtLeast


def direct(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return (values[:, None] >= thresholds[:, :, None]).sum(axis=-1)


@pytest.mark.parametrize("width", [1, 7, COLUMNS - 1, COLUMNS, COLUMNS + 1, 2 * COLUMNS + 13])
@pytest.mark.parametrize("positives", [1, 5, SORT_FROM - 1, SORT_FROM, 40])
@pytest.mark.parametrize("sample", ["fair", "too low", "too high"])
def test_counts_what_a_comparison_counts(width: int, positives: int, sample: str) -> None:
    generator = np.random.default_rng(width + positives)
    rows = 170  # more than one pass takes
    values = generator.integers(-20, 20, (rows, width)).astype(np.float32)  # many ties
    highest = generator.integers(-15, 60, (rows, 1))  # rows with all, some and none of their thresholds high
    thresholds = np.sort(generator.integers(highest - 35, highest, (rows, positives)).astype(np.float32), axis=1)
    thresholds[::7, positives // 2 :] = np.inf
    values[1, 0] = -np.inf
    counter = AtLeast(thresholds, values + {"fair": 0, "too low": -30, "too high": 30}[sample])
    counter.add(values[counter.order])
    assert (counter.counts() == direct(values, thresholds)).all()
    counter.add(values[counter.order, ::-1])
    assert (counter.counts() == 2 * direct(values, thresholds)).all()


def test_a_row_that_reaches_the_threshold_everywhere_does_not_overflow_its_bytes() -> None:
    values = np.ones((2, 3 * COLUMNS), dtype=np.float32)
    counter = AtLeast(np.zeros((2, 1), dtype=np.float32), values)
    counter.add(values)
    assert (counter.counts() == 3 * COLUMNS).all()
