"""The service over galleries in databases: the same answers, writes that others see, and words when one is gone."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.search.servers import Store, milvus, postgres, start
from tests.search.vectors import unit
from tests.serve.conftest import Served
from tests.serve.service import Service, process, running

import prunnet
from prunnet.search import images_in
from prunnet.serve.app import make_app

psutil = pytest.importorskip("psutil")
pytestmark = pytest.mark.stores
K = 5


@pytest.fixture(params=["postgresql", "milvus"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(request.param, tmp_path)


@pytest.fixture
def place(store: Store, served: Served, photos: Path) -> str:
    """The gallery of `served`, in a store."""
    address = str(store.new())
    dense = prunnet.load(served.run).subnetwork(1.0)
    prunnet.index(address, dense, images_in(photos / "gallery"), made_with=str(served.run))
    return address


def question(served: Served, row: int) -> dict[str, Any]:
    return {"vector": unit(8, 8, seed=4)[row].tolist(), "family_id": served.model.family_id, "k": K}


def test_it_answers_as_over_a_folder(store: Store, place: str, served: Served, service: Service) -> None:
    with process(place) as (_, stored):
        assert stored.get("/readyz").status == 200
        told, same = stored.get("/v1/family").json, service.get("/v1/family").json
        assert {**told, "queries": []} == {**same, "queries": []} and told["count"] == len(served.index())
        for row in range(8):
            for where in ({}, {"label": same_label(service, served)}):
                asked = {**question(served, row), "where": where}
                answers, right = (there.post("/v1/search", asked).json["answers"] for there in (stored, service))
                scores = [answer["score"] for answer in right]
                assert [answer["score"] for answer in answers] == pytest.approx(scores, abs=store.precision)
                assert len(answers) == K if not where else {answer["label"] for answer in answers} == {where["label"]}
        assert answers[0].keys() == right[0].keys()
        picture = stored.get(answers[0]["image"])
        assert picture.status == 200 and picture.body == service.get(answers[0]["image"]).body
        file = next(Path(served.run).parent.parent.rglob("photos*/query/*/*.png")).read_bytes()
        assert len(stored.post("/v1/search/image?k=3", file).json["answers"]) == 3


def same_label(service: Service, served: Served) -> str:
    return str(service.post("/v1/search", question(served, 0)).json["answers"][0]["label"])


def test_what_is_acknowledged_is_there_for_all_even_if_it_is_killed(place: str, served: Served) -> None:
    before = len(served.index())
    addition = {"ids": ["a", "b"], "vectors": unit(2, 8, seed=3).tolist(), "family_id": served.model.family_id}
    with process(place, "--writable") as (child, service):
        told = service.post("/v1/vectors", {**addition, "metadata": [{"shop": "7"}, {"shop": 9}]})
        assert told.json == {"changed": 2, "count": before + 2}
        assert service.ask("DELETE", "/v1/vectors", {"ids": ["b"]}).json == {"changed": 1, "count": before + 1}
        other = service.post("/v1/vectors", {**addition, "family_id": "another"})
        assert other.status == 409 and place not in other.detail
        child.send_signal(signal.SIGKILL)
        child.wait(60)
    index = prunnet.VectorIndex.open(place)
    assert len(index) == before + 1 and index.records(["a", "b"])["a"].metadata == {"shop": "7"} and "b" not in index


@pytest.fixture
def stop(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Ends the server; in the end it runs again."""
    if store.kind == "milvus":
        monkeypatch.setattr("prunnet.search.stores.milvus_server.SECONDS", 3.0)

    def ended() -> None:
        if store.kind == "milvus":
            milvus().server_proc.kill()
            milvus().stop()
        else:
            server = psutil.Process(postgres(store.kind).get_pid())
            server.send_signal(signal.SIGQUIT)
            server.wait(60)

    yield ended
    if store.kind == "milvus":
        start(milvus())
    else:
        postgres(store.kind).ensure_postgres_running()


def test_a_store_that_is_gone_is_said_without_its_address(
    place: str, served: Served, stop: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    with running(make_app(prunnet.VectorIndex.open(place), served.model, writable=True)) as service:
        assert service.post("/v1/search", question(served, 0)).status == 200
        stop()
        for told in (
            service.get("/readyz"),
            service.post("/v1/search", question(served, 0)),
            service.ask("DELETE", "/v1/vectors", {"ids": ["a"]}),
        ):
            assert told.status == 503 and told.detail.startswith("the gallery does not answer")
            assert told.headers["retry-after"] == "5"
        assert service.get("/healthz").status == 200
    assert place.partition("://")[0] in caplog.text  # where it is stands in the log
