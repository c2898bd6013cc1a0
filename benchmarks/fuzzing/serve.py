"""Requests to the service: whatever is sent, an answer below 500, no more memory, and soon."""

import errno
import io
import json
import socket
import struct
import threading
import zlib
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
import uvicorn
from PIL import Image

import prunnet
from fuzzing.harness import WrongError
from fuzzing.mutations import as_json, damaged, forged
from fuzzing.networks import CAPACITIES, network
from prunnet.serve.app import make_app
from prunnet.serve.model import ServedModel
from prunnet.serve.pictures import token_of
from prunnet.serve.tokens import Tokens

TOKEN = "a-token-of-some-length"
REFUSED = (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN)  # before all of a request was sent
RANGES = ("0-9", "-5", "5-", "9-5", "0-1,3-4", "99999999999-", "-0", "a-b", "-", "--", "0-" + "9" * 400, "", "\t0-1")
PATHS = ("/v1/images/../../etc/passwd", "/v1/images/%2e%2e%2f", "/page/../app.py", "//", "/%00", "/v1/queries/-1")


class Serve:
    name = "serve"
    megabytes = 500  # a picture may have as many pixels as are read

    def __init__(self, canary: Path) -> None:
        folder = canary.parent
        net = network()
        packed = prunnet.pack(net, folder / "a.prun", grid=CAPACITIES, runtime=True)
        index = prunnet.VectorIndex.create(folder / "gallery", net)
        self._family, self._folder = net.family_id, folder / "gallery"
        vectors = torch.nn.functional.normalize(torch.randn(50, 8), dim=1)
        self._vectors = vectors.tolist()
        index.add(prunnet.Embeddings(vectors, self._family, 1.0), [f"image-{number}" for number in range(50)])
        (folder / "tokens").write_text(TOKEN)
        app: Any = make_app(index, ServedModel.open(str(packed)), writable=True, tokens=Tokens(folder / "tokens"))
        self._statuses = app.metrics.requests
        content = io.BytesIO()
        noise = np.random.default_rng(0).integers(0, 256, (40, 48, 3), dtype=np.uint8)
        Image.fromarray(noise).save(content, "PNG")
        self._picture = content.getvalue()
        listening = socket.create_server(("127.0.0.1", 0))
        self._port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, http="h11", ws="none", log_level="critical"))
        threading.Thread(target=server.run, args=([listening],), daemon=True).start()

    def attempt(self, rng: Random) -> str:
        made = rng.choice((self._question, self._question, self._bytes, self._image, self._range, self._path))
        method, path, headers, body = made(rng)
        allowed = rng.random() > 0.1
        headers = {"Host": "localhost", "Content-Length": str(len(body)), "Connection": "close", **headers}
        headers["Authorization"] = f"Bearer {TOKEN}" if allowed else f"Bearer {damaged(TOKEN.encode(), rng).hex()}"
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
        broken = rng.random() < 0.3
        if broken:
            request = damaged(request, rng) if rng.random() < 0.7 else _claiming(request, len(body), rng)
        failed = self._failed()
        answer = self._send(request, ended=broken)
        if self._failed() > failed:
            raise WrongError(f"a status of 500 or more to {request[:200]!r}")
        if not broken and not answer.startswith(b"HTTP/1.1 "):
            raise WrongError(f"no answer to {request[:200]!r}")
        status = answer[9:10].decode() or "no"
        if status == "2" and not allowed and not broken and path.startswith("/v1/"):
            raise WrongError(f"answered without a token: {request[:200]!r}")
        return f"{status}xx"

    def _failed(self) -> int:
        return sum(count for (*_, status), count in self._statuses.items() if status >= 500)

    def _send(self, request: bytes, *, ended: bool) -> bytes:
        parts = []
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            try:
                connection.sendall(request)
                if ended:
                    connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(2**16):
                    parts.append(part)
            except OSError as error:
                if error.errno not in REFUSED:
                    raise
        return b"".join(parts)

    def _question(self, rng: Random) -> tuple[str, str, dict[str, str], bytes]:
        vector = rng.choice(self._vectors)
        kind = rng.randrange(3)
        told: Any = {"vector": vector, "family_id": self._family, "k": 3, "where": {"label": "a"}}
        if kind == 1:
            told = {"ids": [f"image-{rng.randrange(60)}"], "vectors": [vector], "family_id": self._family}
            told |= {"capacity": 0.5, "metadata": [{"label": "a"}], "replace": True}
        elif kind == 2:
            told = {"ids": [f"image-{rng.randrange(60)}"]}
        body = as_json(forged(told, rng)) if rng.random() < 0.8 else damaged(json.dumps(told).encode(), rng)
        method, path = (("POST", "/v1/search"), ("POST", "/v1/vectors"), ("DELETE", "/v1/vectors"))[kind]
        return method, path, {"Content-Type": rng.choice(("application/json",) * 9 + ("text/plain",))}, body

    def _bytes(self, rng: Random) -> tuple[str, str, dict[str, str], bytes]:
        body = struct.pack("<8f", *rng.choice(self._vectors))
        if rng.random() < 0.8:
            body = damaged(body, rng) if rng.random() < 0.5 else rng.randbytes(rng.randrange(200))
        where = rng.choice(("", "{}", '{"a":1}', '{"a":[1]}', "[" * rng.choice((2, 100_0)), "\x00", '{"a":1e999}'))
        path = f"/v1/search?k={rng.choice(('1', '0', '-1', '9' * 30, '٣', 'x', ''))}&where={where}"
        path += f"&dtype={rng.choice(('float32', 'float16', 'float64', '', '%ff'))}"
        headers = {"Content-Type": "application/octet-stream", "X-Family-Id": rng.choice((self._family, "b", "é" * 99))}
        return "POST", quote(path, safe="/?&=%"), headers, body

    def _image(self, rng: Random) -> tuple[str, str, dict[str, str], bytes]:
        body = damaged(self._picture, rng)
        if rng.random() < 0.2:
            body = _bomb(self._picture, rng)
        capacity = rng.choice(("1", "0.5", "0.2", "0.3", "nan", "inf", "-1", "1e999", "x", ""))
        return "POST", f"/v1/search/image?capacity={capacity}", {"Content-Type": "image/png"}, body

    def _range(self, rng: Random) -> tuple[str, str, dict[str, str], bytes]:
        headers = {"Range": rng.choice(("bytes=", "bytes", "", "lines=")) + rng.choice(RANGES)}
        headers["If-Range"] = rng.choice(('"a"', "*", "W/", '"'))
        if rng.random() < 0.5:
            del headers["If-Range"]
            headers["If-None-Match"] = rng.choice(('"a", "b"', '"' * 5000, "W/x", ","))
        return rng.choice(("GET", "HEAD")), rng.choice(("/v1/model.prun", "/js/prunnet.js")), headers, b""

    def _path(self, rng: Random) -> tuple[str, str, dict[str, str], bytes]:
        token = token_of(f"image-{rng.randrange(60)}")
        noise = quote(rng.randbytes(rng.randrange(1, 300)), safe="/")
        images = (f"/v1/images/{token}", f"/v1/images/{token[: rng.randrange(len(token))]}", f"/v1/images/{noise}")
        method = rng.choice(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"))
        cookie = rng.choice(("prunnet_session=x", "=;=;", "é", '"' * 99, "prunnet_session"))
        return method, rng.choice((*PATHS, *images, f"/{noise}", "/v1/session")), {"Cookie": quote(cookie)}, b""


def _claiming(request: bytes, length: int, rng: Random) -> bytes:
    """A request that says its body is of another length than it is."""
    claimed = rng.choice((b"0", b"-1", b"1", b"9" * 9, b"9" * 15, b"9" * 300, b"x", b"1e9", str(length + 9).encode()))
    if rng.random() < 0.3:
        chunk = rng.choice((b"FFFFFFFF\r\nx", b"0\r\n\r\n", b"-1\r\n", b"5\r\nabc\r\n", b"F" * 500 + b"\r\n"))
        head, _, _ = request.partition(b"Content-Length")
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk
    return request.replace(f"Content-Length: {length}".encode(), b"Content-Length: " + claimed)


def _bomb(picture: bytes, rng: Random) -> bytes:
    """A small file that claims to be a huge picture."""
    side = rng.choice((9_000, 30_000, 2**31 - 1))
    claim = b"IHDR" + struct.pack(">IIBBBBB", side, rng.choice((1, side)), rng.choice((1, 8, 16)), 2, 0, 0, 0)
    return picture[:12] + claim + struct.pack(">I", zlib.crc32(claim)) + picture[33:]
