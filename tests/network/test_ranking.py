from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from prunnet.errors import PrunNetError
from prunnet.network.capacity import kept_connections
from prunnet.network.ranking import levels, rank

capacities = st.floats(min_value=1e-9, max_value=1.0)
# few distinct values, so that ties on the threshold are the rule
scores = st.lists(st.integers(-3, 3), min_size=1, max_size=60).map(lambda v: torch.tensor(v, dtype=torch.float32) / 4)


def slow_top(importance: list[float], count: int) -> list[bool]:
    """Sort by falling importance, then by position; keep the first `count`."""
    order = sorted(range(len(importance)), key=lambda i: (-importance[i], i))
    return [i in set(order[:count]) for i in range(len(importance))]


@given(scores, capacities)
def test_equals_sorting_by_score_then_position(score: torch.Tensor, capacity: float) -> None:
    count = kept_connections(capacity, score.numel())
    (masks,) = rank({"layer": score}, [capacity])
    assert masks["layer"].tolist() == slow_top(score.abs().tolist(), count)


@given(scores, capacities, capacities)
def test_masks_are_nested(score: torch.Tensor, first: float, second: float) -> None:
    small, large = rank({"layer": score}, sorted((first, second)))
    assert not (small["layer"] & ~large["layer"]).any()


@given(scores, st.lists(capacities, min_size=1, max_size=6))
def test_many_capacities_at_once_equal_one_by_one(score: torch.Tensor, several: list[float]) -> None:
    together = rank({"layer": score}, several)
    alone = [rank({"layer": score}, [capacity])[0] for capacity in several]
    assert all(torch.equal(a["layer"], b["layer"]) for a, b in zip(together, alone, strict=True))


def test_masks_of_one_step_share_a_byte_per_connection() -> None:
    score = torch.randn(40, 25, generator=torch.Generator().manual_seed(0))
    masks = rank({"layer": score}, [0.2, 0.8, 0.6])
    assert len({id(mask._levels) for mask in masks}) == 1
    assert masks[0]._levels["layer"].dtype == torch.uint8
    assert [int(mask["layer"].sum()) for mask in masks] == [200, 800, 600]


def test_more_capacities_than_a_byte_can_count() -> None:
    score = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    many = [(i + 1) / 300 for i in range(300)]
    counts = [int(mask["layer"].sum()) for mask in rank({"layer": score}, many)]
    assert counts == [kept_connections(capacity, 1000) for capacity in many]


@given(st.integers(1, 300), capacities)
def test_keeps_the_share_nearest_to_the_capacity_and_at_least_one(connections: int, capacity: float) -> None:
    kept = kept_connections(capacity, connections)
    distances = {count: abs(Fraction(count, connections) - Fraction(capacity)) for count in range(1, connections + 1)}
    rounding = Fraction(1, 10**12)  # of a product that falls between two counts
    assert distances[kept] <= min(distances.values()) + rounding
    assert kept_connections(1.0, connections) == connections


def test_signed_ranking_keeps_large_and_magnitude_keeps_far_from_zero() -> None:
    score = {"layer": torch.tensor([-3.0, 1.0, 2.0, -0.5])}
    assert rank(score, [0.5], "magnitude")[0]["layer"].tolist() == [True, False, True, False]
    assert rank(score, [0.5], "signed")[0]["layer"].tolist() == [False, True, True, False]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_floating_type_is_ranked(dtype: torch.dtype) -> None:
    score = torch.randn(50, 20, generator=torch.Generator().manual_seed(0)).to(dtype)
    mask = levels(score.abs(), [300]) > 0
    assert mask.sum() == 300
    assert score.abs()[mask].min() >= score.abs()[~mask].max()


def test_a_channels_last_layer_is_ranked_like_its_contiguous_copy() -> None:
    score = torch.randint(-2, 3, (4, 3, 3, 3), generator=torch.Generator().manual_seed(0)).float()
    strided = score.to(memory_format=torch.channels_last)
    assert torch.equal(levels(strided, [40]), levels(score, [40]))


def test_nan_scores_are_reported_with_the_layer() -> None:
    with pytest.raises(PrunNetError, match=r"the scores of stem contain NaN"):
        rank({"stem": torch.tensor([1.0, float("nan"), 2.0])}, [0.5])
