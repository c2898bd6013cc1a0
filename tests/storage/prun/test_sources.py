import io
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from prunnet.errors import FamilyError
from prunnet.storage.prun import prefix_bytes, read_contents, unpack


class CountingFile(io.BytesIO):
    """Remembers how far it was read, and how many bytes."""

    furthest = 0
    count = 0

    def read(self, size: int | None = -1) -> bytes:
        piece = super().read(size)
        self.furthest = max(self.furthest, self.tell())
        self.count += len(piece)
        return piece


class SlowFile(CountingFile):
    """Gives a few bytes at a time, as an unbuffered file may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 1000))


class RangeHandler(BaseHTTPRequestHandler):
    def __init__(self, content: bytes, served: list[tuple[int, int]], *args) -> None:
        self.content, self.served = content, served
        super().__init__(*args)

    def do_GET(self) -> None:
        start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = self.content[start : end + 1]
        if self.path == "/missing.prun":
            self.send_error(404)
        elif self.path == "/plain.prun":
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
        else:
            claimed = len(body) + (100 if self.path == "/broken.prun" else 0)
            self.served.append((start, start + len(body)))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(self.content)}")
            self.send_header("Content-Length", str(claimed))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if self.path == "/broken.prun" else body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server(packed) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    served: list[tuple[int, int]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeHandler, packed, served)) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", served
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("capacity", [0.05, 0.1, 0.4, 1.0])
def test_only_the_bytes_of_the_prefix_are_touched(packed, capacity) -> None:
    file = CountingFile(packed)
    unpack(file, capacity)
    assert file.furthest == file.count == prefix_bytes(io.BytesIO(packed), capacity)


def test_a_file_may_give_less_than_asked_for(packed) -> None:
    assert unpack(SlowFile(packed), 0.2).capacity == 0.2


def test_prefix_and_contents_read_the_header_alone(packed) -> None:
    for read in (read_contents, lambda file: prefix_bytes(file, 1.0)):
        file = CountingFile(packed)
        read(file)
        first_band = read_contents(io.BytesIO(packed)).bands[0]
        assert file.count < first_band.start


def test_a_web_server_sends_only_the_prefix(packed, server) -> None:
    address, served = server
    subnetwork = unpack(f"{address}/tiny.prun", 0.1)
    assert sum(end - start for start, end in served) == prefix_bytes(io.BytesIO(packed), 0.1)
    assert max(end for _, end in served) == prefix_bytes(io.BytesIO(packed), 0.1)
    local = unpack(io.BytesIO(packed), 0.1).state_dict()
    assert all(torch.equal(tensor, local[name]) for name, tensor in subnetwork.state_dict().items())
    assert prefix_bytes(f"{address}/tiny.prun", 1.0) == len(packed)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.prun", "status 404"),
        ("plain.prun", "does not answer range requests; download the file"),
        ("broken.prun", "is cut off: only 22 of 44 bytes arrived|IncompleteRead"),
    ],
)
def test_a_web_server_that_cannot_help_gives_one_clear_line(server, path, message) -> None:
    with pytest.raises(FamilyError, match=message) as error:
        unpack(f"{server[0]}/{path}", 0.1)
    assert path in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_source_is_named(tmp_path) -> None:
    with pytest.raises(FamilyError, match=r"none.prun cannot be read \(No such file"):
        unpack(tmp_path / "none.prun", 0.1)
    with pytest.raises(FamilyError, match="cannot be read"):
        unpack(tmp_path, 0.1)
    with pytest.raises(FamilyError, match="found bytes"):
        unpack(b"PRUN", 0.1)
    with pytest.raises(FamilyError, match=r"http://127.0.0.1:1/a.prun cannot be read"):
        unpack("http://127.0.0.1:1/a.prun", 0.1)
