"""Every metric against a slow reading of its definition, and against libraries that define the same."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.slow import METRICS, rankings, slow_metric

from prunnet._torchvision import require_torchvision
from prunnet.data.retrieval import LabelAnswers, ListedAnswers
from prunnet.errors import DataError, EvaluationError
from prunnet.evaluation import LabelRelevance, Metric, TruthRelevance, score


def by_label(*arrays, **options) -> LabelRelevance:
    return LabelRelevance(LabelAnswers(*arrays, **options))


def listed(truth: list[dict], gallery: int) -> TruthRelevance:
    return TruthRelevance(ListedAnswers(truth, gallery))


def vectors(generator: np.random.Generator, count: int, dimensions: int = 6) -> torch.Tensor:
    """Whole numbers, so that products are exact and ties are ties."""
    return torch.from_numpy(generator.integers(-3, 4, (count, dimensions)).astype(np.float32))


def problem(seed: int, queries: int = 25, gallery: int = 90, classes: int = 9) -> tuple:
    generator = np.random.default_rng(seed)
    asked, found = generator.integers(0, classes, queries), generator.integers(-1, classes, gallery)
    return vectors(generator, queries), vectors(generator, gallery), asked, found, generator


def expected(name: str, hits: list[list[bool]]) -> np.ndarray:
    return np.array([slow_metric(name, row) for row in hits])


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("seed", range(3))
def test_labels(name: str, seed: int) -> None:
    query, gallery, asked, found, _ = problem(seed)
    values = score(query, gallery, by_label(asked, found), [name])[name]
    hits = rankings((query @ gallery.T).numpy(), asked, found)
    np.testing.assert_allclose(values, expected(name, hits), rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_no_image_answers_itself_when_query_and_gallery_are_one_set(name: str) -> None:
    _, gallery, _, found, _ = problem(3)
    values = score(gallery, gallery, by_label(found, found, same_set=True), [name])[name]
    hits = rankings((gallery @ gallery.T).numpy(), found, found, same_set=True)
    np.testing.assert_allclose(values, expected(name, hits), rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_images_of_the_querys_identity_and_camera_are_ignored_and_distractors_are_not(name: str) -> None:
    query, gallery, asked, found, generator = problem(4)
    cameras = generator.integers(0, 3, len(asked)), generator.integers(0, 3, len(found))
    values = score(query, gallery, by_label(asked, found, cameras), [name])[name]
    hits = rankings((query @ gallery.T).numpy(), asked, found, *cameras)
    np.testing.assert_allclose(values, expected(name, hits), rtol=1e-12)


@pytest.mark.parametrize("name", ["mAP", "mAP@5", "MAP@R"])
def test_listed_answers_and_junk(name: str) -> None:
    query, gallery, _, _, generator = problem(6)
    truth, hits = [], []
    for row in (query @ gallery.T).numpy():
        drawn = generator.permutation(len(gallery)).tolist()
        answers, junk = drawn[: generator.integers(0, 40)], drawn[50:60]
        truth.append({"positives": answers, "junk": junk})
        kept = sorted((-row[g], g in answers) for g in range(len(gallery)) if g not in junk)
        hits.append([right for _, right in kept])
    values = score(query, gallery, listed(truth, len(gallery)), [name])[name]
    np.testing.assert_allclose(values, expected(name, hits), rtol=1e-12)


def test_the_setting_of_memory_changes_nothing_but_memory() -> None:
    query, gallery, asked, found, _ = problem(7, queries=300, gallery=400, classes=5)
    relevance = by_label(asked, found)
    reference = score(query, gallery, relevance, METRICS)
    truth = listed([{"easy": np.flatnonzero(found == label).tolist()} for label in asked], len(found))
    for memory in ("1kB", "300kB", 20_000_000, "2GB"):
        for other in (relevance, truth):
            for name, values in score(query, gallery, other, METRICS, memory=memory).items():
                np.testing.assert_allclose(values, reference[name], rtol=1e-12)


def test_chunks_stay_within_the_memory_setting() -> None:
    found = np.repeat(np.arange(40), 500)
    relevance = by_label(found[::5], found)
    for memory in (1e6, 1e7, 1e8):
        chunks = relevance._chunks(memory)
        assert [chunk.start for chunk in chunks[1:]] == [chunk.stop for chunk in chunks[:-1]]
        assert (chunks[0].start, chunks[-1].stop) == (0, 4000)
        assert all(relevance._bytes(chunk.start, chunk.stop) <= memory for chunk in chunks)


def test_scoring_leaves_the_number_of_threads_as_it_was() -> None:
    query, gallery, asked, found, _ = problem(8)
    before = torch.get_num_threads()
    score(query, gallery, by_label(asked, found))
    assert torch.get_num_threads() == before


def test_a_network_that_embeds_everything_alike_scores_worst() -> None:
    found = np.repeat(np.arange(5), 4)
    values = score(torch.ones(20, 3), torch.ones(20, 3), by_label(found, found))["mAP"]
    last = [17, 18, 19, 20]
    np.testing.assert_allclose(values, np.mean([(k + 1) / rank for k, rank in enumerate(last)]))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(1, 12))
def test_properties(seed: int, classes: int) -> None:
    query, gallery, asked, found, generator = problem(seed, queries=12, gallery=40, classes=classes)
    values = score(query, gallery, by_label(asked, found), METRICS)
    for scores in values.values():
        answered = ~np.isnan(scores)
        assert (answered == np.isin(asked, found)).all()
        assert ((scores[answered] >= 0) & (scores[answered] <= 1)).all()
    order, asking = generator.permutation(len(found)), generator.permutation(len(asked))
    shuffled = score(query[asking], gallery[order], by_label(asked[asking], found[order]), METRICS)
    for name in METRICS:
        np.testing.assert_allclose(shuffled[name], values[name][asking], rtol=1e-12)
    for lower, higher in (("Recall@1", "CMC@3"), ("CMC@3", "Recall@4"), ("MAP@R", "R-Precision"), ("MAP@R", "mAP")):
        assert (np.nan_to_num(values[lower]) <= np.nan_to_num(values[higher]) + 1e-12).all()

    perfect = torch.nn.functional.one_hot(torch.from_numpy(np.where(found < 0, classes, found)), classes + 1).float()
    sought = torch.nn.functional.one_hot(torch.from_numpy(asked), classes + 1).float()
    for scores in score(sought, perfect, by_label(asked, found), METRICS).values():
        assert (scores[~np.isnan(scores)] == 1).all()


def random_retrieval(seed: int) -> tuple[torch.Tensor, torch.Tensor, np.ndarray, np.ndarray]:
    """Without ties, which libraries break in different ways."""
    generator = torch.Generator().manual_seed(seed)
    labels = np.random.default_rng(seed).integers(0, 6, 120)
    found = torch.nn.functional.normalize(torch.randn(120, 16, generator=generator))
    asked = torch.nn.functional.normalize(found[:30] + 0.8 * torch.randn(30, 16, generator=generator))
    return asked, found, labels[:30], labels


def test_against_scikit_learn() -> None:
    from sklearn.metrics import average_precision_score

    query, gallery, asked, found = random_retrieval(0)
    similarity = (query @ gallery.T).numpy()
    reference = [average_precision_score(found == label, row) for label, row in zip(asked, similarity, strict=True)]
    np.testing.assert_allclose(score(query, gallery, by_label(asked, found))["mAP"], reference, rtol=1e-6)


def test_against_torchmetrics() -> None:
    require_torchvision()  # torchmetrics imports it where it is installed
    from torchmetrics.functional.retrieval import (
        retrieval_average_precision,
        retrieval_hit_rate,
        retrieval_r_precision,
    )

    query, gallery, asked, found = random_retrieval(1)
    values = score(query, gallery, by_label(asked, found), ("mAP", "Recall@1", "Recall@4", "R-Precision"))
    for q, row in enumerate(query @ gallery.T + 2):  # it takes answers at or below 0 for wrong
        target = torch.from_numpy(found == asked[q])
        assert values["mAP"][q] == pytest.approx(retrieval_average_precision(row, target).item(), rel=1e-5)
        assert values["Recall@1"][q] == retrieval_hit_rate(row, target, top_k=1).item()
        assert values["Recall@4"][q] == retrieval_hit_rate(row, target, top_k=4).item()
        assert values["R-Precision"][q] == pytest.approx(retrieval_r_precision(row, target).item())


@pytest.mark.parametrize("same_set", [False, True])
def test_against_pytorch_metric_learning(same_set: bool) -> None:
    from pytorch_metric_learning.distances import CosineSimilarity
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import CustomKNN

    query, gallery, asked, found = random_retrieval(2)
    if same_set:
        query, asked = gallery, found
    names = {"MAP@R": "mean_average_precision_at_r", "R-Precision": "r_precision", "Recall@1": "precision_at_1"}
    calculator = AccuracyCalculator(tuple(names.values()), k="max_bin_count", knn_func=CustomKNN(CosineSimilarity()))
    labels = torch.from_numpy(asked), torch.from_numpy(found)
    reference = calculator.get_accuracy(query, labels[0], gallery, labels[1], ref_includes_query=same_set)
    values = score(query, gallery, by_label(asked, found, same_set=same_set), tuple(names))
    for ours, theirs in names.items():
        assert np.nanmean(values[ours]) == pytest.approx(reference[theirs], rel=1e-6)


@pytest.mark.parametrize("name", ["map", "mAP@0", "Recall", "Recall@x", "revisited-impossible", ""])
def test_an_unknown_metric_is_named(name: str) -> None:
    with pytest.raises(EvaluationError, match=r"unknown metric .* choose one of mAP, "):
        Metric.parse(name)


def test_what_cannot_be_scored_is_refused() -> None:
    query, gallery, asked, found, _ = problem(9)
    relevance = by_label(asked, found)
    with pytest.raises(EvaluationError, match=r"25 query vectors expected, found a tensor of shape \(24, 6\)"):
        score(query[:-1], gallery, relevance)
    with pytest.raises(EvaluationError, match="6 dimensions, the gallery has 5"):
        score(query, gallery[:, :5], relevance)
    broken = gallery.clone()
    broken[3, 1] = torch.nan
    with pytest.raises(EvaluationError, match="1 of 90 gallery vectors hold NaN"):
        score(query, broken, relevance)
    with pytest.raises(EvaluationError, match="easy from hard"):
        score(query, gallery, relevance, ["revisited-hard"])
    with pytest.raises(DataError, match="query 1 names an image outside 0 … 89"):
        listed([{"easy": [0]}, {"hard": [90]}], 90)
    with pytest.raises(DataError, match="one set for both"):
        by_label(asked, found, same_set=True)
