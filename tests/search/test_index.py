"""What an index promises, shown against a dictionary that is searched by brute force."""

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.search.vectors import FAMILY, contents, embedded, names, some, unit

import prunnet
from prunnet import VectorIndex
from prunnet.errors import BusyError, DamagedError, FamilyError, SearchError
from prunnet.search import folder as folder_module
from prunnet.search.folder import FolderIndex
from prunnet.search.merging import FAN, to_merge


@pytest.fixture
def index(tmp_path: Path) -> FolderIndex:
    made = VectorIndex.create(tmp_path / "gallery", some(1))
    assert isinstance(made, FolderIndex)
    return made


def reopened(index: FolderIndex) -> FolderIndex:
    return FolderIndex(index.folder)


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


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_an_index_is_a_dictionary_searched_by_brute_force(data: st.DataObject, tmp_path_factory: Any) -> None:
    index: Any = VectorIndex.create(tmp_path_factory.mktemp("property") / "gallery", some(1))
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
            assert not index.manifest.removed_rows
        else:
            index = reopened(index)
        assert len(index) == len(rows) and all(id in index for id in rows) and "photo-99" not in index
    assert contents(index) == {id: (v.tolist(), m, c, FAMILY) for id, (v, m, c) in rows.items()}
    queries = unit(3, seed=99)
    for where in ({}, {"a": "7"}, {"a": 7, "b": True}, {"missing": 1}):
        k = data.draw(st.integers(1, 20))
        for query, hits in zip(queries, index.search(embedded(queries), k, where), strict=True):
            scores = [hit.score for hit in hits]
            assert scores == pytest.approx(brute_force(rows, query, k, where), abs=1e-6)
            for hit in hits:
                vector, metadata, capacity = rows[hit.id]
                assert hit.score == pytest.approx(float(query @ vector), abs=1e-6)
                assert hit.metadata == metadata and hit.capacity == capacity and hit.family_id == FAMILY


def test_members_mix_and_say_who_they_are(index: FolderIndex) -> None:
    index.add(some(2, seed=0, capacity=1.0), names(2))
    index.add(some(2, seed=1, capacity=0.2), names(2, 2))
    hits = index.search(some(1, seed=2, capacity=0.13), k=4)[0]
    assert {hit.id: hit.capacity for hit in hits} == {**dict.fromkeys(names(2), 1.0), **dict.fromkeys(names(2, 2), 0.2)}


def test_k_may_be_larger_than_the_index_and_the_index_empty(index: FolderIndex) -> None:
    assert index.search(some(2)) == [[], []]
    index.add(some(3), names(3))
    assert [len(hits) for hits in index.search(some(2), k=1000)] == [3, 3]
    assert index.search(embedded(unit(0)), k=5) == []


def test_adding_an_id_again_replaces_it_or_is_refused(index: FolderIndex) -> None:
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
def test_bad_calls_change_nothing(index: FolderIndex, call: Any, message: str) -> None:
    index.add(some(1), ["here"])
    with pytest.raises(SearchError, match=message):
        call(index)
    assert len(reopened(index)) == 1 and "here" in reopened(index)


def test_a_gallery_is_not_made_over_another_or_in_a_foreign_folder(index: FolderIndex, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="already holds a gallery of family family-a"):
        VectorIndex.create(index.folder, some(1, family_id="family-b"))
    with pytest.raises(SearchError, match="is no gallery"):
        VectorIndex.create(index.folder.parent, some(1))
    with pytest.raises(SearchError, match="is no gallery"):
        VectorIndex.open(tmp_path / "nowhere")


def test_a_network_makes_a_gallery_for_its_members(tmp_path: Path, small_net) -> None:
    index = VectorIndex.create(tmp_path / "gallery", small_net)
    images = torch.randn(3, *small_net.preprocessing.input_size)
    index.add(small_net.encode(images), names(3))
    prunnet.adapt_batchnorm(small_net, [torch.randn(8, *small_net.preprocessing.input_size)], capacities=[0.5])
    assert ids_of(index.search(small_net.encode(images), 1)) == [[id] for id in names(3)]
    assert len(index.search(small_net.encode(images, 0.5), 3)[0]) == 3


@pytest.mark.parametrize("what", ["truncated", "altered", "missing"])
@pytest.mark.parametrize("kind", ["segment", "removed"])
def test_a_damaged_file_is_named_when_opened(index: FolderIndex, what: str, kind: str) -> None:
    index.add(some(4), names(4))
    index.remove(names(1))
    file = next(index.folder.glob(f"{kind}-*"))
    content = bytearray(file.read_bytes())
    if what == "missing":
        file.unlink()
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(bytes(content) if what == "altered" else bytes(content[:-1]))
    with pytest.raises(DamagedError, match=file.name):
        VectorIndex.open(index.folder)


def test_an_altered_manifest_is_refused(index: FolderIndex) -> None:
    file = index.folder / "manifest.json"
    file.write_text(file.read_text().replace(FAMILY, "family-b"))
    with pytest.raises(DamagedError, match="does not match its checksum"):
        VectorIndex.open(index.folder)


def test_no_bit_of_a_gallery_changes_unnoticed(index: FolderIndex) -> None:
    index.add(some(2), names(2), {"a": "b"})
    for file in sorted(index.folder.iterdir()):
        content = file.read_bytes()
        for place in range(0, len(content), max(1, len(content) // 40)):
            changed = bytearray(content)
            changed[place] ^= 4
            file.write_bytes(bytes(changed))
            with pytest.raises((DamagedError, FamilyError, SearchError)):
                VectorIndex.open(index.folder)
        file.write_bytes(content)
    VectorIndex.open(index.folder)


def test_one_process_writes_others_read(index: FolderIndex) -> None:
    index.add(some(1), ["first"])
    with multiprocessing.get_context("spawn").Pool(1) as pool, index.writing():
        index.add(some(1, seed=1), ["second"])
        assert pool.apply(try_to_add, (index.folder,)) == "busy"
        assert pool.apply(count, (index.folder,)) == 2
    reader = reopened(index)
    index.add(some(1, seed=2), ["third"])
    assert len(reader) == 2
    reader.refresh()
    assert len(reader) == 3


def try_to_add(folder: Path) -> str:
    try:
        VectorIndex.open(folder).add(some(1, seed=3), ["other"])
    except BusyError:
        return "busy"
    return "added"


def count(folder: Path) -> int:
    return len(VectorIndex.open(folder))


def test_a_reader_goes_on_while_segments_are_merged_away(index: FolderIndex) -> None:
    index.add(some(5), names(5))
    reader = reopened(index)
    index.compact()
    for number in range(2 * FAN):
        index.add(some(1, seed=number), [f"more-{number}"])
    assert len(reader.search(some(1), 10)[0]) == 5


def test_small_additions_do_not_leave_many_files(index: FolderIndex) -> None:
    for number in range(70):
        index.add(some(1, seed=number), [str(number)])
    assert len(index.manifest.segments) < 2 * FAN
    assert len(list(index.folder.iterdir())) == len(index.manifest.segments) + 1
    assert sorted(contents(reopened(index))) == sorted(map(str, range(70)))


@given(st.lists(st.integers(1, 10**6), max_size=300))
def test_the_number_of_segments_is_bounded_whatever_is_added(added: list[int]) -> None:
    rows: list[int] = []
    for count in added:
        rows.append(count)
        merged = to_merge(rows)
        if merged:
            rows[-merged:] = [sum(rows[-merged:])]
            assert rows[-1] <= folder_module.MOST_ROWS
    assert sum(size < FAN**5 for size in rows) < 5 * FAN + len([size for size in rows if size >= FAN**5]) * FAN


def test_ids_and_metadata_may_be_any_text(index: FolderIndex) -> None:
    strange = ["a/ü.jpg", "\udcff", "\n", "x" * 4000, "日本"]
    index.add(some(5), strange, [{"path": id, "ü": True} for id in strange])
    found = contents(reopened(index))
    assert {id: metadata["path"] for id, (_, metadata, _, _) in found.items()} == dict(
        zip(strange, strange, strict=True)
    )
    assert ids_of(index.search(some(1), 5, {"path": "\udcff"})) == [["\udcff"]]


FULL = """
import resource, signal, sys
from prunnet import VectorIndex
from tests.search.vectors import names, some
index = VectorIndex.open(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
index.add(some(2000), names(2000))
"""


def test_a_full_disk_says_so_and_leaves_it_whole(index: FolderIndex) -> None:
    index.add(some(3), names(3))
    before = contents(index)
    done = subprocess.run(
        [sys.executable, "-c", FULL, index.folder], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode and "File too large" in done.stderr.splitlines()[-1]
    assert contents(reopened(index)) == before
    index.add(some(1, seed=1), ["more"])
    assert len(list(index.folder.iterdir())) == 3  # what was half written is swept
