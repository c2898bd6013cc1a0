"""The page and the runtime for browsers: files of this package, read once and sent by their names."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
    ".gz": "application/gzip",
}


class StaticFile(NamedTuple):
    """A file as it is sent."""

    content: bytes
    media_type: str
    digest: str


def static_files() -> dict[str, StaticFile]:
    """What is there, by address."""
    package = files("prunnet")
    page = _files(package / "serve" / "page", "/page/")
    found = {**page, **_files(package / "runtime" / "js", "/js/")}
    if (first := page.get("/page/index.html")) is not None:
        found["/"] = first
    return found


def _files(folder: Traversable, address: str) -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    for entry in folder.iterdir() if folder.is_dir() else ():
        kind = TYPES.get(f".{entry.name.rpartition('.')[2]}")
        if entry.is_file() and kind is not None:
            content = entry.read_bytes()
            found[address + entry.name] = StaticFile(content, kind, hashlib.sha256(content).hexdigest())
    return found
