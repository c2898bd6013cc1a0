"""What every index promises, wherever it is, shown against a dictionary that is searched by brute force."""

import json
import multiprocessing
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.servers import Store
from tests.search.vectors import FAMILY, contents, embedded, names, some, unit

import prunnet
from prunnet import VectorIndex
from prunnet.errors import BusyError, FamilyError, SearchError


@pytest.fixture
def index(store: Store) -> VectorIndex:
    return VectorIndex.create(store.new(), some(1))


def reopened(index: VectorIndex) -> VectorIndex:
    return VectorIndex.open(index.place)


def ids_of(answers: Any) -> list[list[str]]:
    return [[hit.id for hit in hits] for hits in answers]


Expected = dict[str, tuple[Any, dict[str, Any], float]]


def brute_force(rows: Expected, query: torch.Tensor, k: int, where: dict[str, Any]) -> list[float]:
    fitting = [
        vector
        for vector, metadata, _ in rows.values()
        if all(json.dumps(metadata.get(key)) == json.dumps(value) for key, value in where.items())
    ]
    return sorted((float(query @ vector) for vector in fitting), reverse=True)[:k]


def test_an_index_is_a_dictionary_searched_by_brute_force(store: Store) -> None:
    examples = 3 if store.kind == "milvus" else 20  # a new collection takes it seconds
    settings(max_examples=examples, deadline=None)(given(data=st.data())(behave_like_a_dictionary))(store=store)


def behave_like_a_dictionary(data: st.DataObject, store: Store) -> None:
    index = VectorIndex.create(store.new(), some(1))
    rows: Expected = {}
    for step in range(data.draw(st.integers(1, 14), label="calls")):
        call = data.draw(st.sampled_from(["add", "add", "add", "remove", "compact", "open"]))
        if call == "add":
            chosen = data.draw(st.lists(st.sampled_from(names(12)), unique=True, max_size=6))
            metadata = [
                data.draw(st.dictionaries(st.sampled_from("ab"), st.sampled_from(["7", 7, 7.5, True]))) for _ in chosen
            ]
            capacity = data.draw(st.sampled_from([1.0, 0.2]))
            vectors = unit(len(chosen), seed=step)
            index.add(embedded(vectors, capacity=capacity), chosen, metadata)
            for id in chosen:
                rows.pop(id, None)
            rows |= {id: (vectors[i], metadata[i], capacity) for i, id in enumerate(chosen)}
        elif call == "remove" and rows:
            chosen = data.draw(st.lists(st.sampled_from(sorted(rows)), unique=True))
            index.remove(chosen)
            rows = {id: row for id, row in rows.items() if id not in chosen}
        elif call == "compact":
            index.compact()
        else:
            index = reopened(index)
        assert len(index) == len(rows) and all(id in index for id in rows) and "photo-99" not in index
    found = contents(index)
    assert {id: row[1:] for id, row in found.items()} == {id: (m, c, FAMILY) for id, (_, m, c) in rows.items()}
    assert all(found[id][0] == pytest.approx(vector.tolist(), abs=store.precision) for id, (vector, *_) in rows.items())
    assert sum(index.made_by().values()) == len(rows)
    queries = unit(3, seed=99)
    for where in ({}, {"a": "7"}, {"a": 7, "b": True}, {"missing": 1}):
        k = data.draw(st.integers(1, 20))
        for query, hits in zip(queries, index.search(embedded(queries), k, where), strict=True):
            scores = [hit.score for hit in hits]
            assert scores == pytest.approx(brute_force(rows, query, k, where), abs=store.precision)
            for hit in hits:
                vector, metadata, capacity = rows[hit.id]
                assert hit.score == pytest.approx(float(query @ vector), abs=store.precision)
                assert hit.metadata == metadata and hit.capacity == capacity and hit.family_id == FAMILY


def test_members_mix_and_say_who_they_are(index: VectorIndex) -> None:
    index.add(some(2, seed=0, capacity=1.0), names(2))
    index.add(some(2, seed=1, capacity=0.2), names(2, 2))
    hits = index.search(some(1, seed=2, capacity=0.13), k=4)[0]
    assert {hit.id: hit.capacity for hit in hits} == {**dict.fromkeys(names(2), 1.0), **dict.fromkeys(names(2, 2), 0.2)}


def test_k_may_be_larger_than_the_index_and_the_index_empty(index: VectorIndex) -> None:
    assert index.search(some(2)) == [[], []]
    index.add(some(3), names(3))
    assert [len(hits) for hits in index.search(some(2), k=1000)] == [3, 3]
    assert index.search(embedded(unit(0)), k=5) == []


def test_adding_an_id_again_replaces_it_or_is_refused(index: VectorIndex) -> None:
    index.add(some(2, seed=0), names(2), {"old": True})
    with pytest.raises(SearchError, match="already holds 'photo-1'"):
        index.add(some(2, seed=1), names(2, 1), replace=False)
    assert len(index) == 2
    index.add(some(2, seed=1), names(2, 1))
    assert {hit.id: hit.metadata for hit in index.search(some(1), 5)[0]} == {
        "photo-0": {"old": True},
        "photo-1": {},
        "photo-2": {},
    }


WRONG = [
    (lambda: some(1, family_id="family-b"), FamilyError, "of family family-b do not belong into .*family-a"),
    (lambda: some(1, dimension=9), SearchError, "of 8 dimensions; these have 9 dimensions"),
    (lambda: embedded(torch.full((2, 8), torch.nan)), SearchError, "2 of 2 vectors hold NaN"),
    (lambda: embedded(torch.ones(1, 8)), SearchError, "have length 1; found one of 2.828"),
    (lambda: torch.ones(1, 8), SearchError, "takes prunnet.Embeddings"),
    (lambda: embedded(torch.ones(8)), SearchError, "these have shape"),
]


@pytest.mark.parametrize(("make", "kind", "message"), WRONG)
def test_what_does_not_belong_is_refused_in_one_line(index, make: Any, kind: Any, message: str) -> None:
    index.add(some(1), ["here"])
    for call in (lambda: index.add(make(), ["x"]), lambda: index.search(make())):
        with pytest.raises(kind, match=message) as error:
            call()
        assert "\n" not in str(error.value)
    assert len(reopened(index)) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.add(some(2), ["x"]), "1 ids for 2 vectors"),
        (lambda index: index.add(some(2), ["x", "x"]), "'x' is given twice"),
        (lambda index: index.add(some(1), [""]), "an id is a text"),
        (lambda index: index.add(some(1), "x"), "found one text"),
        (lambda index: index.add(some(1), ["x"], [{"a": [1]}]), "texts, numbers or truth values; found"),
        (lambda index: index.add(some(1), ["x"], [{"a": float("nan")}]), "finite numbers"),
        (lambda index: index.add(some(1), ["x"], [{}, {}]), "metadata of 2 for 1"),
        (lambda index: index.add(some(1), ["x"], [{"": 1}]), "metadata keys are texts"),
        (lambda index: index.remove(["here", "nowhere"]), "holds no 'nowhere'; nothing was removed"),
        (lambda index: index.search(some(1), k=0), "at least 1; found 0"),
    ],
)
def test_bad_calls_change_nothing(index: VectorIndex, call: Any, message: str) -> None:
    index.add(some(1), ["here"])
    with pytest.raises(SearchError, match=message):
        call(index)
    assert len(reopened(index)) == 1 and "here" in reopened(index)


def test_a_gallery_is_not_made_over_another_nor_opened_where_there_is_none(index: VectorIndex, store: Store) -> None:
    with pytest.raises(SearchError, match="already holds a gallery of family family-a"):
        VectorIndex.create(index.place, some(1, family_id="family-b"))
    with pytest.raises(SearchError, match="is no gallery"):
        VectorIndex.open(store.new())
    assert type(index).exists(index.place) and not type(index).exists(store.new())
    assert type(index).check(index.place) == ([], 0)


def test_a_network_makes_a_gallery_for_its_members(store: Store, small_net) -> None:
    index = VectorIndex.create(store.new(), small_net)
    images = torch.randn(3, *small_net.preprocessing.input_size)
    index.add(small_net.encode(images), names(3))
    prunnet.adapt_batchnorm(small_net, [torch.randn(8, *small_net.preprocessing.input_size)], capacities=[0.5])
    for id, hits in zip(names(3), index.search(small_net.encode(images), 3), strict=True):
        assert {hit.id: hit.score for hit in hits}[id] == pytest.approx(1, abs=store.precision)
    assert len(index.search(small_net.encode(images, 0.5), 3)[0]) == 3


def test_one_process_writes_others_read(index: VectorIndex, store: Store) -> None:
    if store.kind == "milvus":
        pytest.skip("Milvus has no locks")
    index.add(some(1), ["first"])
    with multiprocessing.get_context("spawn").Pool(1) as pool, index.writing():
        index.add(some(1, seed=1), ["second"])
        assert pool.apply(try_to_add, (index.place,)) == "busy"
        assert pool.apply(count, (index.place,)) == 2
    reader = reopened(index)
    index.add(some(1, seed=2), ["third"])
    reader.refresh()
    assert len(reader) == 3


def try_to_add(place: str) -> str:
    try:
        VectorIndex.open(place).add(some(1, seed=3), ["other"])
    except BusyError:
        return "busy"
    return "added"


def count(place: str) -> int:
    return len(VectorIndex.open(place))


def test_ids_and_metadata_may_be_any_text(index: VectorIndex) -> None:
    strange = ["a/ü.jpg", "\udcff", "\n", "x" * 2500, "日本", "\x00", "\x1b0000", "'\"\\", "%s {table}"]
    keys = [id[:9].replace("\udcff", "ü") for id in strange]
    index.add(some(len(strange)), strange, [{"path": id, key: 1} for id, key in zip(strange, keys, strict=True)])
    found = contents(reopened(index))
    assert {id: metadata["path"] for id, (_, metadata, _, _) in found.items()} == dict(
        zip(strange, strange, strict=True)
    )
    for id, key in zip(strange, keys, strict=True):
        assert ids_of(index.search(some(1), 5, {"path": id})) == ids_of(index.search(some(1), 5, {key: 1})) == [[id]]
    assert index.holding("path", [*strange, "other"]) == {*strange} and index.records(strange).keys() == {*strange}
    index.remove(strange)
    assert not len(reopened(index))
