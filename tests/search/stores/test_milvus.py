"""What Milvus needs to keep the promises of every index: additions that count by one last write."""

from pathlib import Path
from typing import Any

import pytest
from tests.search.servers import Store, milvus, start
from tests.search.vectors import contents, names, some

pytest.importorskip("pymilvus")

from prunnet import VectorIndex
from prunnet.errors import SearchError
from prunnet.search.stores.milvus import MilvusIndex

pytestmark = pytest.mark.stores


@pytest.fixture
def index(tmp_path: Path) -> MilvusIndex:
    made = VectorIndex.create(Store("milvus", tmp_path).new(), some(1))
    assert isinstance(made, MilvusIndex)
    made.add(some(3), names(3), {"old": True})
    return made


class Stopped(MilvusIndex):
    """One whose process ends at a step of an addition."""

    at = ""

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        super()._insert(rows)
        self._stop("inserted")

    def _delete_replaced(self, ids: Any) -> None:
        self._stop("counted")
        super()._delete_replaced(ids)

    def _stop(self, step: str) -> None:
        if step == self.at:
            raise KeyboardInterrupt


def test_an_addition_that_was_stopped_before_it_counts_is_not_seen(index: MilvusIndex) -> None:
    before = contents(index)
    stopped = Stopped(index.place)
    stopped.at = "inserted"
    with pytest.raises(KeyboardInterrupt):
        stopped.add(some(4, seed=1), names(4, 1))
    for reader in (index, MilvusIndex(index.place)):
        assert len(reader) == 3 and contents(reader) == before
        assert {hit.id: hit.metadata for hit in reader.search(some(1), 10)[0]} == {
            key: {"old": True} for key in names(3)
        }
    index = MilvusIndex(index.place)
    index.add(some(1, seed=2), ["more"])
    assert index._server.count("batch >= 0") == len(index) == 4  # what was left over is gone


def test_an_addition_that_was_stopped_after_it_counts_is_seen_once(index: MilvusIndex) -> None:
    stopped = Stopped(index.place)
    stopped.at = "counted"
    with pytest.raises(KeyboardInterrupt):
        stopped.add(some(4, seed=1), names(4, 1), {"new": True})
    reader = MilvusIndex(index.place)
    hits = reader.search(some(1, seed=1), 10)[0]
    expected = {"photo-0": {"old": True}, **{key: {"new": True} for key in names(4, 1)}}
    assert len(hits) == 5 and {hit.id: hit.metadata for hit in hits} == expected
    index.add(some(1, seed=2), ["more"])
    assert len(index) == 6 and contents(index).keys() == {*expected, "more"}


def test_a_server_that_stops_in_the_middle_of_an_add_leaves_nothing_of_it(
    index: MilvusIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prunnet.search.stores.milvus_server.SECONDS", 3.0)
    before, calls = contents(index), iter(range(5))

    def insert(rows: list[dict[str, Any]]) -> None:
        if next(calls) == 1:
            milvus().server_proc.kill()
            milvus().stop()
        index._server.insert(rows)

    with monkeypatch.context() as patched:
        patched.setattr(index, "_insert", insert)
        with pytest.raises(SearchError) as error:
            index.add(some(1500, seed=1), names(1500))
    assert str(error.value).startswith("milvus://127.0.0.1") and "\n" not in str(error.value)
    monkeypatch.setattr("prunnet.search.stores.milvus_server.SECONDS", 60.0)
    start(milvus())
    again = MilvusIndex(f"milvus://127.0.0.1:{milvus().listen_port}/{index.place.rpartition('/')[2]}")
    assert contents(again) == before
    again.add(some(1, seed=2), ["more"])
    assert len(again) == 4


def test_its_errors_are_one_line_without_the_password() -> None:
    with pytest.raises(SearchError, match=r"^milvus://me@127.0.0.1:1/shop: ") as error:
        VectorIndex.open("milvus://me:s3cret@127.0.0.1:1/shop")
    assert "s3cret" not in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(SearchError, match="names no collection"):
        VectorIndex.open("milvus://127.0.0.1:1/")
