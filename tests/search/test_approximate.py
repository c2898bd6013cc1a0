"""Above a size a gallery is searched by faiss, and says how well."""

from pathlib import Path
from typing import Any

import faiss.contrib.torch_utils  # noqa: F401  replaces methods of faiss for the whole process, as other libraries do
import numpy as np
import pytest
import torch
from tests.search.vectors import clustered, embedded, names

from prunnet import VectorIndex
from prunnet.search import engine
from prunnet.search import folder as folder_module
from prunnet.search.exact import blocks, search_blocks
from prunnet.search.folder import FolderIndex

COUNT = 3000


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderIndex:
    monkeypatch.setattr(folder_module, "EXACT_ROWS", 1000)
    vectors = clustered(COUNT)
    made: Any = VectorIndex.create(tmp_path / "gallery", embedded(vectors))
    made.add(embedded(vectors), names(COUNT), [{"store": str(row % 2), "rare": str(row % 300)} for row in range(COUNT)])
    made.flush()
    return made


def recall(index: FolderIndex, queries: torch.Tensor, where: Any = None) -> float:
    _, found = index.nearest(queries, 10, where)
    snapshot = index.snapshot
    _, true = search_blocks(queries, blocks(snapshot.segments, snapshot.allowed(where)), 10)
    pairs = zip(found.tolist(), true.tolist(), strict=True)
    return float(np.mean([len({*answers} & {*right}) / 10 for answers, right in pairs]))


def test_what_it_says_of_its_recall_holds(index: FolderIndex) -> None:
    told = index.manifest.approximate
    assert told is not None and told.recall >= 0.95 and told.probes <= told.lists and told.codes == "fp16"
    assert recall(index, clustered(200, seed=5)) >= told.recall - 0.05


def test_scores_are_the_cosines_to_half_precision(index: FolderIndex) -> None:
    queries = clustered(20, seed=5)
    by_id = dict(zip(names(COUNT), clustered(COUNT), strict=True))
    for query, hits in zip(queries, index.search(embedded(queries)), strict=True):
        assert [hit.score for hit in hits] == pytest.approx([float(query @ by_id[hit.id]) for hit in hits], abs=2e-3)


def test_what_was_removed_replaced_or_filtered_out_does_not_answer(index: FolderIndex) -> None:
    queries = clustered(50, seed=5)
    first = {hits[0].id for hits in index.search(embedded(queries), 1)}
    index.remove(first)
    assert not first & {hit.id for hits in index.search(embedded(queries)) for hit in hits}
    for where in ({"store": "1"}, {"rare": "7"}):
        answers = index.search(embedded(queries), 10, where)
        assert all(len(hits) == 10 or where == {"rare": "7"} for hits in answers)
        assert all(hit.metadata[key] == value for hits in answers for hit in hits for key, value in where.items())
        assert recall(index, queries, where) >= 0.9


def test_new_vectors_answer_before_and_after_they_are_flushed(index: FolderIndex) -> None:
    new = clustered(900, seed=9)
    built = index.manifest.approximate
    index.add(embedded(new), [f"new-{row}" for row in range(900)])
    for _ in range(2):
        assert [hits[0].id for hits in index.search(embedded(new[:50]), 1)] == [f"new-{row}" for row in range(50)]
        index.flush()
    assert built is not None and index.manifest.approximate is not None
    assert index.manifest.approximate.rows == COUNT + 900 and index.manifest.approximate.trained_on == COUNT
    reopened = FolderIndex(index.folder)
    assert recall(reopened, clustered(100, seed=5)) >= 0.9


def test_a_bound_of_memory_gives_eight_bits(index: FolderIndex) -> None:
    index.compact("100kB")
    assert index.manifest.approximate is not None and index.manifest.approximate.codes == "int8"
    assert recall(index, clustered(100, seed=5)) >= 0.85


def test_many_answers_are_exact(index: FolderIndex) -> None:
    answers = index.search(embedded(clustered(2, seed=5)), 2 * COUNT)
    assert [len(hits) for hits in answers] == [COUNT, COUNT]


def test_without_faiss_every_vector_is_compared(index: FolderIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "installed", lambda: False)
    reopened = FolderIndex(index.folder)
    assert reopened.snapshot.approximate is None
    assert recall(reopened, clustered(50, seed=5)) == 1.0
    reopened.add(embedded(clustered(5, seed=8)), names(5, COUNT))
    reopened.flush()
    assert len(FolderIndex(index.folder)) == COUNT + 5
