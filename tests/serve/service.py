"""A service that runs, in a thread or in a process of its own, and how tests ask it."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import uvicorn

T = TypeVar("T")


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        text = self.json["detail"]
        assert isinstance(text, str) and text and "\n" not in text
        return text


class Service:
    """Where it is."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Response:
        """One request on a connection of its own; what is neither bytes nor None is sent as JSON."""
        fields = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            known = {name.lower(): value for name, value in answer.getheaders()}
            return Response(answer.status, known, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Response:
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path: str, body: Any, **headers: str) -> Response:
        return self.ask("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    def open(self) -> socket.socket:
        """A connection for requests that no library would make."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, in a thread: a browser's test may have left a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


@contextmanager
def running(app: Any) -> Iterator[Service]:
    """`app` in a thread, until the block ends."""
    server = uvicorn.Server(uvicorn.Config(app, http="h11", ws="none", log_level="warning", access_log=False))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield Service(listening.getsockname()[1])  # the system holds connections until they are accepted
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def process(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], Service]]:
    """`prunnet serve` with `arguments` on a free port; whatever is left of it in the end is killed."""
    command = [sys.executable, "-m", "prunnet", "serve", *map(str, arguments), "--port", "0"]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )
    try:
        assert child.stdout is not None and child.stderr is not None
        line = child.stdout.readline()
        assert "is served at" in line, child.stderr.read()
        yield child, Service(int(line.partition("127.0.0.1:")[2].partition("/")[0]))
    finally:
        child.kill()
        child.communicate()
