"""Vectors and pictures in, answers out."""

import io
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.serve.conftest import Served
from tests.serve.service import Service, running

import prunnet
from prunnet.search import images_in
from prunnet.serve import Limits
from prunnet.serve.app import make_app
from prunnet.serve.model import ServedModel


@pytest.fixture(scope="module")
def asked(served: Served, photos: Path) -> prunnet.Embeddings:
    images = images_in(photos / "query")
    return prunnet.load(served.run).encode([images.image(place) for place in range(len(images))], 0.5)


def expected(served: Served, asked: prunnet.Embeddings, k: int, where: Any = None) -> list[list[tuple[str, float]]]:
    answers = served.index().search(asked, k, where)
    return [[(hit.id, hit.score) for hit in hits] for hits in answers]


def found(answers: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(answer["id"], pytest.approx(answer["score"], abs=1e-6)) for answer in answers]


def question(asked: prunnet.Embeddings, **more: Any) -> dict[str, Any]:
    return {"vector": asked.vectors[0].tolist(), "family_id": asked.family_id, **more}


def test_a_vector_as_numbers_or_as_bytes_is_answered_as_the_index_does(
    served: Served, service: Service, asked: prunnet.Embeddings
) -> None:
    right = expected(served, asked, 5)
    assert right[0] == found(service.post("/v1/search", question(asked, k=5)).json["answers"])
    raw = {"Content_Type": "application/octet-stream", "X_Family_Id": asked.family_id}
    for dtype in ("float32", "float16"):
        body = asked.vectors[:1].numpy().astype(np.dtype(dtype).newbyteorder("<")).tobytes()
        answers = service.post(f"/v1/search?k=5&dtype={dtype}", body, **raw).json["answers"]
        assert [answer["id"] for answer in answers] == [id for id, _ in right[0]]
        assert answers[0]["score"] == pytest.approx(right[0][0][1], abs=1e-6 if dtype == "float32" else 1e-3)
    several = {"vectors": asked.vectors.tolist(), "family_id": asked.family_id, "k": 5}
    told = service.post("/v1/search", several).json
    assert [found(answers) for answers in told["queries"]] == right
    assert told["answers"] == told["queries"][0]
    whole = service.post("/v1/search?k=5", asked.vectors.numpy().astype("<f4").tobytes(), **raw).json
    assert whole["queries"] == told["queries"]


def test_an_answer_says_what_is_known_and_not_where_it_lies(
    served: Served, service: Service, asked: prunnet.Embeddings
) -> None:
    record = served.index().search(asked, 1)[0][0].record
    answer = service.post("/v1/search", question(asked, k=1)).json["answers"][0]
    assert answer["label"] == record.metadata["label"] and answer["metadata"] == {"label": record.metadata["label"]}
    assert (answer["generation"], answer["capacity"]) == (record.family_id, record.capacity)
    assert str(served.gallery.parent) not in str(answer) and "photos" not in str(answer)


def test_a_filter_is_that_of_the_index(served: Served, service: Service, asked: prunnet.Embeddings) -> None:
    label = str(served.index().search(asked, 1)[0][0].metadata["label"])
    where = {"label": label}
    right = expected(served, asked, 3, where)[0]
    assert right == found(service.post("/v1/search", question(asked, k=3, where=where)).json["answers"])
    raw = {"Content_Type": "application/octet-stream", "X_Family_Id": asked.family_id}
    body = asked.vectors[:1].numpy().astype("<f4").tobytes()
    path = f"/v1/search?k=3&where=%7B%22label%22:%22{label.replace('+', '%2B')}%22%7D"
    assert right == found(service.post(path, body, **raw).json["answers"])
    assert service.post("/v1/search", question(asked, where={"label": "none"})).json["answers"] == []


def test_many_that_ask_at_once_get_their_own_answers(
    served: Served, service: Service, asked: prunnet.Embeddings
) -> None:
    right = expected(served, asked, 4)

    def ask(number: int) -> bool:
        place = number % len(asked)
        told = {"vector": asked.vectors[place].tolist(), "family_id": asked.family_id, "k": 1 + number % 4}
        answers = found(service.post("/v1/search", told).json["answers"])
        return right[place][: 1 + number % 4] == answers

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(200)))


def test_another_family_is_refused_by_name(served: Served, service: Service, asked: prunnet.Embeddings) -> None:
    told = service.post("/v1/search", {**question(asked), "family_id": "another"})
    assert told.status == 409 and "another" in told.detail and asked.family_id in told.detail
    assert str(served.gallery) not in told.detail


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vector": [1.0]}, "8 dimensions; these have 1"),
        ({"vector": [0.0] * 8}, "length 1"),
        ({"vector": None}, "give vector"),
        ({"vector": ["1"] * 8}, "vector.0: Input should be a valid number"),
        ({"vectors": [[1.0] + [0.0] * 7] * 65, "vector": None}, "at most 64 queries"),
        ({"vectors": [], "vector": None}, "at least one"),
        ({"vectors": [[1.0], [1.0, 2.0]], "vector": None}, "all of one length"),
        ({"k": 0}, "k: Input should be greater"),
        ({"k": 101}, "1 to 100; found 101"),
        ({"k": True}, "k: Input should be a valid integer"),
        ({"k": 10**30}, "k"),
        ({"where": {str(number): 1 for number in range(9)}}, "at most 8 conditions"),
        ({"where": {"path": "/etc/passwd"}}, "path is not told"),
        ({"where": {"a": [1]}}, "where.a"),
        ({"where": {"": 1}}, "where"),
        ({"family_id": None}, "family_id"),
        ({"extra": 1}, "extra: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong(
    service: Service, asked: prunnet.Embeddings, change: dict[str, Any], message: str
) -> None:
    told = service.post("/v1/search", {**question(asked), **change})
    assert told.status == 422 and message in told.detail


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/search", b"123", "has 32 bytes; found 3"),
        ("/v1/search", b"", "has 32 bytes; found 0"),
        ("/v1/search", b"\xff" * 32, "NaN or infinity"),
        ("/v1/search?dtype=float64", bytes(64), "dtype is float32 or float16"),
        ("/v1/search?k=ten", bytes(32), "k is a whole number"),
        ("/v1/search?where=1", bytes(32), "where"),
        ("/v1/search?where=" + "[" * 5000, bytes(32), "where is no JSON object"),
    ],
)
def test_wrong_bytes_are_told_what_is_wrong(service: Service, path: str, body: bytes, message: str) -> None:
    told = service.post(path, body, Content_Type="application/octet-stream", X_Family_Id="any")
    assert told.status == 422 and message in told.detail


def test_what_is_neither_is_no_question(service: Service) -> None:
    assert service.post("/v1/search", b"{}", Content_Type="text/plain").status == 415
    for body in (b"", b"{", b"[" * 100_000, b"\xff\xfe"):
        assert service.post("/v1/search", body, Content_Type="application/json").status == 422


def picture(side: int = 16) -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (side, side), dtype=np.uint8)).save(data, "PNG")
    return data.getvalue()


@pytest.mark.parametrize("capacity", [None, 0.2, 0.5, 1.0])
def test_a_picture_is_embedded_by_the_member_that_is_wanted(
    served: Served, service: Service, photos: Path, capacity: float | None
) -> None:
    file = sorted((photos / "query").rglob("*.png"))[0]
    vectors = prunnet.load(served.run).encode(Image.open(file), capacity)
    how = "" if capacity is None else f"&capacity={capacity}"
    answers = service.post(f"/v1/search/image?k=3{how}", file.read_bytes()).json["answers"]
    right = served.index().search(vectors, 3)[0]
    assert [answer["id"] for answer in answers] == [hit.id for hit in right]
    assert answers[0]["score"] == pytest.approx(right[0].score, abs=2e-3)  # values are stored in half precision


def test_a_wrong_picture_is_told_what_is_wrong(service: Service) -> None:
    assert "cannot be read as an image" in service.post("/v1/search/image", b"no picture").detail
    assert "cannot be read as an image" in service.post("/v1/search/image", picture()[:150]).detail
    assert service.post("/v1/search/image", picture()[:150]).status == 422
    assert "there is no member at 0.3" in service.post("/v1/search/image?capacity=0.3", picture()).detail
    assert service.post("/v1/search/image?capacity=nan", picture()).status == 422
    assert service.post("/v1/search/image?capacity=x", picture()).status == 422


def test_a_picture_that_would_take_all_memory_is_refused_before_it_is_decoded(service: Service) -> None:
    claim = b"IHDR" + struct.pack(">IIBBBBB", 30_000, 30_000, 8, 0, 0, 0, 0)
    body = picture()
    bomb = body[:12] + claim + struct.pack(">I", zlib.crc32(claim)) + body[33:]
    told = service.post("/v1/search/image", bomb)
    assert told.status == 422 and "30,000 × 30,000 pixels" in told.detail


def test_many_pictures_at_once_get_their_own_answers(service: Service, photos: Path) -> None:
    files = sorted((photos / "query").rglob("*.png"))
    alone = [service.post("/v1/search/image?k=3", file.read_bytes()).json["answers"] for file in files]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda file: service.post("/v1/search/image?k=3", file.read_bytes()), files * 3))
    for one, many in zip(alone * 3, together, strict=True):
        assert [answer["id"] for answer in many.json["answers"]] == [answer["id"] for answer in one]


def test_limits_are_those_that_were_set(served: Served, asked: prunnet.Embeddings) -> None:
    with running(served.app(limits=Limits(k=2, queries=1, body=2000))) as service:
        assert "1 to 2; found 3" in service.post("/v1/search", question(asked, k=3)).detail
        several = {"vectors": asked.vectors[:2].tolist(), "family_id": asked.family_id, "k": 1}
        assert "at most 1 queries" in service.post("/v1/search", several).detail
        told = service.post("/v1/search/image", bytes(2001))
        assert told.status == 413 and "at most 2,000 bytes" in told.detail


def test_a_question_that_takes_too_long_is_given_up(served: Served, asked: prunnet.Embeddings) -> None:
    with running(served.app(limits=Limits(seconds=0.0))) as service:
        told = service.post("/v1/search", question(asked))
        assert told.status in (408, 503) and "took longer than 0 seconds" in told.detail


def test_others_are_answered_while_something_is_searched_for_or_embedded(
    served: Served, asked: prunnet.Embeddings, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, model = served.index(), ServedModel(served.model.file)
    for there, slow, path, body in (
        (index, "search", "/v1/search", question(asked)),
        (model, "member", "/v1/search/image", picture()),
    ):
        begun, go_on, work = Event(), Event(), getattr(there, slow)

        def waiting(*told: Any, begun: Event = begun, go_on: Event = go_on, work: Any = work) -> Any:
            begun.set()
            assert go_on.wait(60)
            return work(*told)

        with (
            monkeypatch.context() as patched,
            running(make_app(index, model)) as service,
            ThreadPoolExecutor(1) as pool,
        ):
            patched.setattr(there, slow, waiting)
            answer = pool.submit(service.post, path, body)
            assert begun.wait(60)
            assert service.get("/healthz").status == 200 and not answer.done()
            go_on.set()
            assert answer.result().status == 200
