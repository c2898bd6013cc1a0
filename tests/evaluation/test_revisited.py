"""Hand-computed rankings under the revisited protocol."""

import numpy as np
import pytest
import torch

from prunnet.data.retrieval import ListedAnswers
from prunnet.errors import EvaluationError
from prunnet.evaluation import TruthRelevance, revisited_map, score


def one_query(order: list[int], **truth: list[int]) -> dict:
    return revisited_map(np.array([order]).T, [truth])


def test_without_junk() -> None:
    # easy 3 at rank 1, easy 1 at rank 3: trapezoids (1 + 1)/2 and (1/2 + 2/3)/2, each half of the recall
    result = one_query([3, 0, 1, 2], easy=[1, 3], hard=[], junk=[])
    assert result["easy"]["mAP"] == pytest.approx((1 + 7 / 12) / 2)
    assert result["easy"]["mP@1"] == 1
    assert result["easy"]["mP@5"] == pytest.approx(2 / 3)  # the last answer is at rank 3, so 5 becomes 3
    assert np.isnan(result["hard"]["mAP"])


def test_junk_before_between_and_after_the_answers() -> None:
    order, truth = [9, 3, 8, 0, 1, 7, 2], {"easy": [1, 3], "hard": [], "junk": [9, 8, 7]}
    without = one_query([3, 0, 1, 2], easy=[1, 3], hard=[], junk=[])
    for level in ("easy", "medium"):
        assert one_query(order, **truth)[level] == pytest.approx(without[level])


def test_each_level_looks_for_its_own_and_ignores_the_rest() -> None:
    # ranking: hard, junk, wrong, easy, wrong, hard
    result = one_query([5, 6, 0, 1, 2, 4], easy=[1], hard=[4, 5], junk=[6])
    # easy: [wrong, easy, wrong] → rank 2: (0/1 + 1/2)/2
    assert result["easy"] == pytest.approx({"mAP": 0.25, "mP@1": 0.0, "mP@5": 0.5, "mP@10": 0.5})
    # medium: [hard, wrong, easy, wrong, hard] → ranks 1, 3, 5
    medium = ((1 + 1) / 2 + (1 / 2 + 2 / 3) / 2 + (2 / 4 + 3 / 5) / 2) / 3
    assert result["medium"] == pytest.approx({"mAP": medium, "mP@1": 1.0, "mP@5": 0.6, "mP@10": 0.6})
    # hard: [hard, wrong, wrong, hard] → ranks 1, 4
    hard = ((1 + 1) / 2 + (1 / 3 + 2 / 4) / 2) / 2
    assert result["hard"] == pytest.approx({"mAP": hard, "mP@1": 1.0, "mP@5": 0.5, "mP@10": 0.5})


def test_queries_without_an_answer_are_left_out_of_the_mean() -> None:
    ranks = np.array([[0, 1, 2], [2, 1, 0]]).T
    result = revisited_map(ranks, [{"easy": [0], "hard": [], "junk": []}, {"easy": [], "hard": [0], "junk": []}])
    assert result["easy"]["mAP"] == 1
    assert result["hard"]["mAP"] == pytest.approx((0 / 2 + 1 / 3) / 2)
    assert result["medium"]["mAP"] == pytest.approx((1 + 1 / 6) / 2)


def test_answers_missing_from_a_shortened_ranking_count_as_not_found() -> None:
    assert one_query([0, 5], easy=[0, 1, 2, 3])["easy"]["mAP"] == pytest.approx(1 / 4)
    assert one_query([5, 6], easy=[0])["easy"] == {"mAP": 0.0, "mP@1": 0.0, "mP@5": 0.0, "mP@10": 0.0}


@pytest.mark.parametrize("seed", range(5))
def test_scoring_vectors_equals_scoring_their_ranking(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, gallery = torch.randn(12, 8, generator=generator), torch.randn(200, 8, generator=generator)
    truth = []
    for _ in range(12):
        drawn = torch.randperm(200, generator=generator).tolist()
        truth.append({"easy": drawn[: seed * 9], "hard": drawn[50:60], "junk": drawn[60:80]})
    reference = revisited_map((query @ gallery.T).argsort(dim=1, descending=True).T, truth)
    names = [f"revisited-{level}" for level in reference]
    values = score(query, gallery, TruthRelevance(ListedAnswers(truth, 200)), names)
    for level, figures in reference.items():
        scores = values[f"revisited-{level}"]
        mean = scores[~np.isnan(scores)].mean() if (~np.isnan(scores)).any() else np.nan
        assert mean == pytest.approx(figures["mAP"], nan_ok=True)
    medium = score(query, gallery, TruthRelevance(ListedAnswers(truth, 200)), ["revisited"])["revisited"]
    np.testing.assert_array_equal(medium, values["revisited-medium"])


def test_a_ranking_that_does_not_fit_the_ground_truth_is_refused() -> None:
    with pytest.raises(EvaluationError, match=r"shape \(1, 4\); expected one column for each of 1 queries"):
        revisited_map(np.zeros((1, 4), dtype=int), [{"easy": [0]}])
