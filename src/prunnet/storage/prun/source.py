"""Bytes of a file by position: from a path, an open file, or a web server that answers range requests."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import Any, BinaryIO, Protocol
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prunnet.errors import FamilyError

Source = str | os.PathLike[str] | BinaryIO

TIMEOUT = 30.0  # seconds without a byte
LEAST_RATE = 1000.0  # bytes a second, on average; a server that drips is left


class Ranges(Protocol):
    """A file that is read in pieces; its length is known as soon as one was read."""

    name: str
    length: int

    def read(self, start: int, size: int) -> bytes:
        """Exactly `size` bytes from `start`."""


def is_address(source: object) -> bool:
    """Whether `source` is on the web."""
    return isinstance(source, str) and source.startswith(("http://", "https://"))


@contextmanager
def open_ranges(source: Source) -> Iterator[Ranges]:
    """`source` as `Ranges`; a path is closed afterwards, an open file stays open."""
    if is_address(source):
        yield _WebRanges(str(source))
    elif isinstance(source, str | os.PathLike):
        try:
            file = open(source, "rb", buffering=0)  # noqa: PTH123, SIM115 - no byte beyond those asked for
        except OSError as error:
            raise FamilyError(f"{source} cannot be read ({error.strerror})") from error
        with file:
            yield _FileRanges(file, str(source))
    elif hasattr(source, "read") and hasattr(source, "seek"):
        yield _FileRanges(source, str(getattr(source, "name", "the file")))
    else:
        raise FamilyError(
            f"a .prun file is given as a path, an address or a file open for reading; found {type(source).__name__}"
        )


class _FileRanges:
    def __init__(self, file: Any, name: str) -> None:
        self._file = file
        self.name = name
        self.length: int = file.seek(0, os.SEEK_END)

    def read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        pieces, missing = [], size
        while missing and (piece := self._file.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        if missing:
            raise FamilyError(f"{self.name} is cut off: it ends at byte {start + size - missing}; fetch it again")
        return b"".join(pieces)


class _WebRanges:
    def __init__(self, url: str) -> None:
        self.name = url
        self.length = 0

    def read(self, start: int, size: int) -> bytes:
        headers = {"Range": f"bytes={start}-{start + size - 1}", "Accept-Encoding": "identity"}
        try:
            with urlopen(Request(self.name, headers=headers), timeout=TIMEOUT) as response:
                span = re.fullmatch(rf"bytes {start}-\d+/(\d+)", response.headers.get("Content-Range", ""))
                if response.status != 206 or not span:
                    raise FamilyError(
                        f"{self.name}: the server does not answer range requests; download the file and open that"
                    )
                self.length = int(span[1])
                body = _body(response, size)
        except (OSError, HTTPException, ValueError) as error:  # a ValueError is about the address
            reason = str(error)
            if isinstance(error, HTTPError):
                error.close()
                reason = f"status {error.code}"
            raise FamilyError(f"{self.name} cannot be read ({reason})") from error
        if len(body) != size:
            raise FamilyError(f"{self.name} is cut off: only {len(body)} of {size} bytes arrived; try again")
        return body


def _body(response: HTTPResponse, size: int) -> bytes:
    """Up to `size` bytes, as they arrive."""
    pieces, missing = [], size
    deadline = time.monotonic() + TIMEOUT + size / LEAST_RATE
    while missing and (piece := response.read1(missing)):
        pieces.append(piece)
        missing -= len(piece)
        if time.monotonic() > deadline:
            raise TimeoutError(f"it is too slow: {size - missing} of {size} bytes arrived")
    return b"".join(pieces)
