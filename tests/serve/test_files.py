"""The progressive file, pictures and the page."""

import gzip
import hashlib
import io
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from starlette.datastructures import Headers
from tests.serve.conftest import Served
from tests.serve.service import Service, running

import prunnet
from prunnet.search import images_in
from prunnet.serve.pictures import id_of, token_of
from prunnet.serve.ranges import FileResponse

CONTENT = bytes(range(100))


def test_the_family_says_what_a_device_has_to_know(served: Served, service: Service) -> None:
    told = service.get("/v1/family").json
    family = prunnet.load(served.run)
    assert told["family_id"] == told["generation"] == family.family_id
    assert told["dimension"] == 8 and told["count"] == len(served.index()) and told["labels"] is True
    assert [known["capacity"] for known in told["capacities"]] == [0.2, 0.5, 1.0]
    assert told["matrix"]["capacities"] == [0.2, 0.5, 1.0] and told["kind"] == "drawing"
    matrix = prunnet.Run(served.run).matrix
    for row, query in enumerate((0.2, 0.5, 1.0)):
        assert told["capacities"][row]["measured"] == matrix.at(query, 1.0)
        assert told["matrix"]["values"][row] == [matrix.at(query, gallery) for gallery in (0.2, 0.5, 1.0)]
    for known in told["capacities"]:
        prefix = service.get(told["model"], Range=f"bytes=0-{known['bytes'] - 1}")
        assert prefix.status == 206
        assert prunnet.unpack(io.BytesIO(prefix.body)).capacity == known["capacity"]
    assert told["preprocessing"]["input_size"] == [1, 16, 16]


def test_the_file_is_kept_for_ever_under_its_digest(served: Served, service: Service) -> None:
    address = service.get("/v1/family").json["model"]
    told = service.get(address)
    digest = hashlib.sha256(told.body).hexdigest()
    assert address == f"/v1/model.prun?id={digest}" and told.headers["etag"] == f'"{digest}"'
    assert told.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert told.headers["content-type"] == "application/octet-stream"
    assert service.get("/v1/model.prun").headers["cache-control"] == "no-cache"
    assert service.get("/v1/model.prun?id=" + "0" * 64).status == 404
    again = service.get(address, If_None_Match=f'"{digest}"')
    assert (again.status, again.body) == (304, b"")
    head = service.ask("HEAD", address)
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(told.body)))
    part = service.get(address, Range="bytes=10-19", If_Range=f'"{digest}"')
    assert (part.status, part.body) == (206, told.body[10:20])
    assert part.headers["content-range"] == f"bytes 10-19/{len(told.body)}"
    assert service.get(address, Range="bytes=10-19", If_Range='"another"').body == told.body
    beyond = service.get(address, Range=f"bytes={len(told.body)}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(told.body)}")
    assert served.model.file == told.body


@given(st.one_of(st.none(), st.integers(0, 120)), st.one_of(st.none(), st.integers(0, 120)))
def test_a_range_is_what_the_standard_says(first: int | None, last: int | None) -> None:
    wanted = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    answer = FileResponse(CONTENT, "digest", Headers({"range": wanted}), caching="no-cache")
    if (first is None and last is None) or (first is not None and last is not None and last < first):
        right, status = CONTENT, 200
    elif first is None:
        right, status = CONTENT[-last:] if last else b"", 206 if last else 416
    else:
        right = CONTENT[first:] if last is None else CONTENT[first : last + 1]
        status = 206 if right else 416
    assert (answer.status_code, bytes(answer._part)) == (status, right)
    assert answer.headers["content-length"] == str(len(right))


@pytest.mark.parametrize("wanted", ["bytes=0-1,3-4", "bytes", "lines=0-1", "bytes=a-b", "bytes=-", "bytes=" + "9" * 50])
def test_a_range_that_is_not_understood_is_answered_with_all(wanted: str) -> None:
    answer = FileResponse(CONTENT, "digest", Headers({"range": wanted}), caching="no-cache")
    assert answer.status_code == 200 and bytes(answer._part) == CONTENT


def test_pictures_are_small_and_only_those_of_the_gallery(served: Served, service: Service, photos: Path) -> None:
    images = images_in(photos / "gallery")
    told = service.get(f"/v1/images/{token_of(images.ids[0])}")
    assert told.status == 200 and told.headers["content-type"] == "image/png"
    assert max(Image.open(io.BytesIO(told.body)).size) <= 256
    query = images_in(photos / "query").ids[0]
    for other in (query, str(photos / "query" / query), "../../etc/passwd", str(served.run / "config.yaml")):
        assert service.get(f"/v1/images/{token_of(other)}").status == 404
    for token in ("", "%00", "....", "a" * 5000, "..%2F..%2Fetc%2Fpasswd"):
        assert service.get(f"/v1/images/{token}").status == 404


def test_pictures_that_have_moved_are_found_by_their_ids(served: Served, photos: Path, tmp_path: Path) -> None:
    images = images_in(photos / "gallery")
    target = tmp_path / "elsewhere" / images.ids[0]
    target.parent.mkdir(parents=True)
    Image.new("RGB", (800, 400), "red").save(target)
    with running(served.app(images=tmp_path / "elsewhere")) as service:
        told = service.get(f"/v1/images/{token_of(images.ids[0])}")
        shown = Image.open(io.BytesIO(told.body))
        assert (shown.format, shown.size) == ("JPEG", (256, 128))
        assert service.get(f"/v1/images/{token_of(images.ids[1])}").status == 404


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_an_id_goes_through_an_address(id: str) -> None:
    assert id_of(token_of(id)) == id and token_of(id).isascii() and "/" not in token_of(id)


def test_queries_have_the_classes_of_the_gallery(served: Served, service: Service) -> None:
    told = service.get("/v1/queries").json
    assert [query["image"] for query in told] == service.get("/v1/family").json["queries"]
    classes = {str(hit.metadata["label"]) for hit in served.index().search(_any(served), 1000)[0]}
    assert told and {query["label"] for query in told} <= classes
    shown = service.get(told[0]["image"])
    assert Image.open(io.BytesIO(shown.body)).size == (16, 16)
    for other in (str(len(told)), "-1", "x", "%D9%A3", "9" * 100):
        assert service.get(f"/v1/queries/{other}").status == 404


def _any(served: Served) -> prunnet.Embeddings:
    return prunnet.load(served.run).encode(Image.new("L", (16, 16)))


def test_every_file_of_the_page_is_there_and_no_other(service: Service) -> None:
    for folder, address in (("serve/page", "/page/"), ("runtime/js", "/js/")):
        place = files("prunnet").joinpath(folder)
        for entry in place.iterdir() if place.is_dir() else ():
            told = service.get(address + entry.name)
            if entry.name.endswith((".json", ".ts")):
                assert told.status == 404
            else:
                assert told.status == 200 and told.body == entry.read_bytes()
                assert service.get(address + entry.name, If_None_Match=told.headers["etag"]).status == 304
    module = service.get("/js/prunnet.js")
    assert module.headers["content-type"] == "text/javascript; charset=utf-8"
    library = service.get("/js/prunnet.wasm.gz")
    assert gzip.decompress(library.body)[:4] == b"\0asm" and "content-encoding" not in library.headers
    for other in (
        "/js/../running.py",
        "/js/%2e%2e/running.py",
        "/js/",
        "/page/",
        "/js/prunnet.js/x",
        "/js//prunnet.js",
    ):
        assert service.get(other).status == 404
