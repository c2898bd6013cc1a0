"""Changes of the gallery: refused unless allowed, all or nothing, and there once they are acknowledged."""

import os
import shutil
import signal
import threading
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.search.vectors import unit
from tests.serve.conftest import Served
from tests.serve.service import Service, finished, process, running

import prunnet
from prunnet.search.checking import problems
from prunnet.search.folder import FolderIndex
from prunnet.serve import Limits
from prunnet.serve.app import make_app
from prunnet.serve.writing import Writing


@pytest.fixture
def copy(served: Served, tmp_path: Path) -> Path:
    """The gallery, to be changed."""
    return Path(shutil.copytree(served.gallery, tmp_path / "gallery"))


def addition(served: Served, ids: list[str], **more: Any) -> dict[str, Any]:
    vectors = unit(len(ids), 8, seed=3).tolist()
    return {"ids": ids, "vectors": vectors, "family_id": served.model.family_id, "capacity": 0.5, **more}


def test_nothing_is_changed_unless_it_is_allowed(served: Served, service: Service) -> None:
    before = len(served.index())
    for method, told in (("POST", addition(served, ["new"])), ("DELETE", {"ids": ["new"]})):
        refused = service.ask(method, "/v1/vectors", told)
        assert refused.status == 403 and "--writable" in refused.detail
    assert len(served.index()) == before


def test_what_is_acknowledged_is_there_for_all(served: Served, copy: Path) -> None:
    before = len(served.index())
    with running(make_app(FolderIndex(copy), served.model, writable=True)) as service:
        told = service.post("/v1/vectors", addition(served, ["a", "b"], metadata=[{"shop": "7"}, {"shop": 9}]))
        assert told.json == {"changed": 2, "count": before + 2}
        found = FolderIndex(copy).records(["a", "b", "c"])
        assert {id: record.metadata for id, record in found.items()} == {"a": {"shop": "7"}, "b": {"shop": 9}}
        assert found["a"].capacity == 0.5
        question = {"vector": unit(2, 8, seed=3)[1].tolist(), "family_id": served.model.family_id, "k": 1}
        answer = service.post("/v1/search", question).json["answers"][0]
        assert (answer["id"], answer["image"]) == ("b", None) and answer["score"] == pytest.approx(1)
        told = service.ask("DELETE", "/v1/vectors", {"ids": ["b"]})
        assert told.json == {"changed": 1, "count": before + 1} and "b" not in FolderIndex(copy)


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"family_id": "another"}, 409, "of family another, the gallery of family"),
        ({"replace": False, "ids": ["there", "new"]}, 409, "'there' is there already"),
        ({"metadata": {"path": "/etc/passwd"}}, 422, "path cannot be given"),
        ({"metadata": [{}, {"box": "0 0 1 1"}]}, 422, "box cannot be given"),
        ({"metadata": [{}]}, 422, "metadata of 1 for 2"),
        ({"ids": ["new"]}, 422, "1 ids for 2 vectors"),
        ({"ids": ["new", "new"]}, 422, "given twice"),
        ({"ids": ["new", ""]}, 422, "an id is a text"),
        ({"ids": ["new", "x" * 5000]}, 422, "an id is a text"),
        ({"ids": ["new", 7]}, 422, "ids.1"),
        ({"ids": [str(number) for number in range(101)]}, 422, "at most 100 vectors"),
        ({"vectors": [[1.0], [1.0]]}, 422, "8 dimensions; these have 1"),
        ({"vectors": [[2.0] + [0.0] * 7] * 2}, 422, "length 1"),
        ({"capacity": 0}, 422, "capacity"),
    ],
)
def test_a_change_is_all_or_nothing(
    served: Served, copy: Path, change: dict[str, Any], status: int, message: str
) -> None:
    FolderIndex(copy).add(prunnet.Embeddings(unit(1), served.model.family_id, 1.0), ["there"])
    before = len(FolderIndex(copy))
    with running(make_app(FolderIndex(copy), served.model, writable=True, limits=Limits(vectors=100))) as service:
        told = service.post("/v1/vectors", addition(served, ["new", "newer"]) | change)
        assert told.status == status and message in told.detail and str(copy) not in told.detail
        missing = service.ask("DELETE", "/v1/vectors", {"ids": ["there", "missing"]})
        assert missing.status == 404 and "'missing' is not there; nothing was removed" in missing.detail
    index = FolderIndex(copy)
    assert len(index) == before and "new" not in index and "there" in index


def test_pages_of_other_sites_cannot_write_unasked(served: Served, copy: Path) -> None:
    """Without being asked first, browsers send only text and forms."""
    with running(make_app(FolderIndex(copy), served.model, writable=True)) as service:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            told = service.post("/v1/vectors", b"{}", Content_Type=kind)
            assert told.status == 415


def test_while_another_process_writes_it_says_so(served: Served, copy: Path) -> None:
    with running(make_app(FolderIndex(copy), served.model, writable=True)) as service, FolderIndex(copy).writing():
        told = service.post("/v1/vectors", addition(served, ["new"]))
        assert told.status == 503 and told.headers["retry-after"] == "1" and str(copy) not in told.detail


def test_what_others_write_is_seen(served: Served, copy: Path) -> None:
    index = FolderIndex(copy)
    writing = Writing(index, Limits())
    FolderIndex(copy).add(prunnet.Embeddings(unit(1), served.model.family_id, 1.0), ["new"])
    assert "new" not in index
    finished(writing.refresh())
    assert "new" in index


@pytest.mark.parametrize("command", ["SIGTERM", "SIGINT"])
def test_what_was_accepted_is_answered_before_it_ends(served: Served, command: str) -> None:
    body = b'{"vector": [1,0,0,0,0,0,0,0], "family_id": "%s"}' % served.model.family_id.encode()
    with ExitStack() as stack:
        child, service = stack.enter_context(process(served.gallery))
        connection = stack.enter_context(closing(HTTPConnection("127.0.0.1", service.port, timeout=60)))
        connection.putrequest("POST", "/v1/search")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:10])
        while "prunnet_requests_running 2\n" not in service.get("/metrics").body.decode():
            pass  # it has not been accepted yet
        child.send_signal(getattr(signal, command))
        connection.send(body[10:])
        answer = connection.getresponse()
        assert answer.status == 200 and b"answers" in answer.read()
        assert child.wait(60) in (0, -signal.SIGTERM, -signal.SIGINT, 130)


@pytest.mark.slow
def test_killed_under_load_every_acknowledged_write_is_there(served: Served, copy: Path) -> None:
    before, acknowledged = len(FolderIndex(copy)), set[str]()
    for round in range(5):
        with process(copy, "--writable") as (child, service):
            enough = threading.Event()

            def write(worker: int, round: int = round, service: Service = service, enough: Any = enough) -> None:
                for number in range(1000):
                    ids = [f"{round}-{worker}-{number}-{part}" for part in range(3)]
                    try:
                        if service.post("/v1/vectors", addition(served, ids)).status == 200:
                            acknowledged.update(ids)
                    except OSError:
                        return
                    if len(acknowledged) > 60 * (round + 1):
                        enough.set()

            threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
            for thread in threads:
                thread.start()
            assert enough.wait(120)
            os.kill(child.pid, signal.SIGKILL)
            for thread in threads:
                thread.join()
        found, count = problems(copy)
        index = FolderIndex(copy)
        assert not found and index.records([*acknowledged]).keys() == acknowledged
        assert before + len(acknowledged) <= count
    assert len(acknowledged) > 300
