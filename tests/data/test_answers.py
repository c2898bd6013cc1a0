"""One slow reading of the rule, which the rule itself, the scorer, the check of data and the report must all give."""

from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.evaluation.slow import slow_metric

from prunnet.data import UNLABELLED, ImageSet, Protocol, RetrievalData, check
from prunnet.data.retrieval import LabelAnswers, ListedAnswers, answers_of
from prunnet.errors import DataError
from prunnet.evaluation import relevance_of, score
from prunnet.network import Embeddings
from prunnet.report.searches import ANSWERS, SHOWN, picture, search_examples

CLASSES = 3
LISTS = ("easy", "hard", "positives", "junk")


def verdict(data: RetrievalData, query: int, image: int) -> Literal["right", "ignored", "wrong"]:
    rule = data.protocol
    if rule.same_set and query == image:
        return "ignored"
    if rule.ground_truth is not None:
        truth = rule.ground_truth[query]
        if image in truth.get("junk", []):
            return "ignored"
        match = any(image in truth.get(key, []) for key in ("easy", "hard", "positives"))
    else:
        match = data.query.labels[query] == data.gallery.labels[image] != UNLABELLED
    if match and rule.camera_junk and data.query.cameras[query] == data.gallery.cameras[image]:
        return "ignored"
    return "right" if match else "wrong"


def image_sets(size: int) -> st.SearchStrategy[ImageSet]:
    """Images that each look different, some of no class, from one of two cameras."""

    def make(labels: list[int], cameras: list[int], first: int) -> ImageSet:
        pixels = np.arange(first, first + size, dtype=np.uint8)[:, None, None].repeat(8, axis=1).repeat(8, axis=2)
        arrays = ImageSet.from_arrays(pixels, labels, [str(label) for label in range(CLASSES)])
        return ImageSet(arrays.pixels, arrays.labels, arrays.label_names, arrays.ids, cameras)

    labels = st.lists(st.integers(UNLABELLED, CLASSES - 1), min_size=size, max_size=size)
    cameras = st.lists(st.integers(0, 1), min_size=size, max_size=size)
    return st.builds(make, labels, cameras, st.integers(0, 200))


@st.composite
def protocols(draw: st.DrawFn) -> RetrievalData:
    gallery = draw(image_sets(draw(st.integers(1, 7))))
    same_set = draw(st.booleans())
    query = gallery if same_set else draw(image_sets(draw(st.integers(1, 7))))
    lists = st.dictionaries(st.sampled_from(LISTS), st.lists(st.integers(0, len(gallery) - 1), max_size=4))
    truth = draw(st.none() | st.lists(lists, min_size=len(query), max_size=len(query)))
    protocol = Protocol(same_set=same_set, camera_junk=draw(st.booleans()), ground_truth=truth)
    return RetrievalData("drawn", None, query, gallery, protocol)


@given(data=protocols())
def test_the_rule_is_its_definition(data: RetrievalData) -> None:
    rule = answers_of(data)
    queries, images = np.arange(len(data.query))[:, None], np.arange(len(data.gallery))
    verdicts = np.array([[verdict(data, q, g) for g in images] for q in range(len(queries))])
    np.testing.assert_array_equal(rule.right(queries, images), verdicts == "right")
    np.testing.assert_array_equal(rule.ignored(queries, images), verdicts == "ignored")
    np.testing.assert_array_equal(rule.counts(), (verdicts == "right").sum(axis=1))
    assert rule.right(np.array(0), np.array(0)) == (verdicts[0, 0] == "right")


@settings(max_examples=60, deadline=None)
@given(data=protocols(), seed=st.integers(0, 99))
def test_scorer_check_and_report_agree_with_the_definition(data: RetrievalData, seed: int) -> None:
    verdicts = [[verdict(data, q, g) for g in range(len(data.gallery))] for q in range(len(data.query))]
    drawn = torch.randint(-3, 4, (len(data.query) + len(data.gallery), 4), generator=torch.manual_seed(seed)).float()
    query, gallery = drawn[: len(data.query)], drawn[len(data.query) :]
    values = score(query, gallery, relevance_of(data), ("mAP", "Recall@1"))
    for name, scores in values.items():
        for number, similarity in enumerate((query @ gallery.T).tolist()):
            pairs = zip(similarity, verdicts[number], strict=True)
            ranking = sorted((-value, said == "right") for value, said in pairs if said != "ignored")
            assert scores[number] == pytest.approx(slow_metric(name, [hit for _, hit in ranking]), nan_ok=True)

    unanswered = [data.query.ids[number] for number, row in enumerate(verdicts) if "right" not in row]
    findings = {finding.problem: finding.examples for finding in check(data, examples=99).findings}
    assert findings.get("query without an answer in the gallery", ()) == tuple(unanswered)

    place = {picture(data.gallery.image(index)): index for index in range(len(data.gallery))}
    searches = search_examples(data, [Embeddings(query, "f", 0.2)], Embeddings(gallery, "f", 1.0))
    assert len(searches) == len(data.query) <= SHOWN
    for row, search in zip(verdicts, searches, strict=True):
        shown = search.answers[0.2]
        assert len(shown) == min(ANSWERS, sum(said != "ignored" for said in row))
        assert [row[place[answer.picture]] for answer in shown] == ["right" if a.right else "wrong" for a in shown]


@settings(max_examples=40, deadline=None)
@given(data=protocols().filter(lambda data: data.protocol.ground_truth is not None))
def test_levels_look_for_their_own_answers(data: RetrievalData) -> None:
    truth = data.protocol.ground_truth
    vectors = torch.ones(len(data.query), 2), torch.ones(len(data.gallery), 2)
    for name, scores in score(*vectors, relevance_of(data), ("revisited-easy", "revisited-hard")).items():
        for number, lists in enumerate(truth):
            right = [g for g in range(len(data.gallery)) if verdict(data, number, g) == "right"]
            easy = [g for g in right if any(g in lists.get(key, []) for key in ("easy", "positives"))]
            sought = easy if name == "revisited-easy" else set(right) - set(easy)
            assert bool(sought) == (not np.isnan(scores[number]))


@given(data=protocols(), drawn=st.data())
def test_the_rule_of_some_images_is_the_rule_of_all_for_them(data: RetrievalData, drawn: st.DataObject) -> None:
    def some(images: ImageSet) -> np.ndarray:
        return np.array(sorted(drawn.draw(st.sets(st.integers(0, len(images) - 1), min_size=1))))

    gallery = some(data.gallery)
    query = gallery if data.protocol.same_set else some(data.query)
    taken = data.take(query, gallery)
    assert (taken.query is taken.gallery) == data.protocol.same_set
    verdicts = [[verdict(taken, q, g) for g in range(len(gallery))] for q in range(len(query))]
    assert verdicts == [[verdict(data, q, g) for g in gallery] for q in query]
    assert taken.query.ids == [data.query.ids[q] for q in query]


def test_one_set_has_one_labelling() -> None:
    with pytest.raises(DataError, match="one set for both, yet 2 queries and 3 gallery images"):
        LabelAnswers(np.zeros(2, int), np.zeros(3, int), same_set=True)
    with pytest.raises(DataError, match="one set for both, yet query and gallery images have different labels"):
        LabelAnswers(np.array([0, 1]), np.array([1, 0]), same_set=True)
    with pytest.raises(DataError, match="query 1 names an image outside 0 … 4"):
        ListedAnswers([{"easy": [4]}, {"junk": [5]}], 5)
