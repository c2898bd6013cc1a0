"""A file in memory, sent whole or in part: single byte ranges, and a strong validator (RFC 9110, 13 and 14)."""

import re
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE = 2**18  # sent at once, so that a slow reader holds no copy of the whole
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")
FOREVER = "max-age=31536000, immutable"


class FileResponse(Response):
    """`content`, or what the request's Range, If-Range and If-None-Match make of it."""

    media_type = "application/octet-stream"

    def __init__(self, content: bytes, digest: str, request: Headers, *, caching: str) -> None:
        tag = f'"{digest}"'
        headers = {"ETag": tag, "Accept-Ranges": "bytes", "Cache-Control": caching}
        start, end, status = 0, len(content), 200
        if _matches(request.get("if-none-match"), tag):
            end, status = 0, 304
        elif (wanted := request.get("range")) and request.get("if-range", tag) == tag:
            start, end, status = _span(wanted, len(content))
            if status != 200:
                shown = "*" if status == 416 else f"{start}-{end - 1}"
                headers["Content-Range"] = f"bytes {shown}/{len(content)}"
        super().__init__(status_code=status, headers=headers)
        if status != 304:
            self.headers["Content-Length"] = str(end - start)
        self._part = memoryview(content)[start:end]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        start: dict[str, Any] = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        await send(start)
        part = self._part if scope["method"] != "HEAD" else self._part[:0]
        for place in range(0, len(part), PIECE):
            piece = bytes(part[place : place + PIECE])
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _matches(wanted: str | None, tag: str) -> bool:
    return wanted is not None and (wanted.strip() == "*" or tag in re.findall(r'"[^"]*"', wanted))


def _span(wanted: str, length: int) -> tuple[int, int, int]:
    """Start, end and status of what is sent; several ranges, or none that is understood, are answered with all."""
    found = _RANGE.fullmatch(wanted.strip())
    first, last = found.groups() if found else (None, None)
    if first is None and last is None:
        return 0, length, 200
    if first is None:
        start, end = max(0, length - int(last or 0)), length
    else:
        start, end = int(first), min(length, int(last) + 1 if last else length)
        if last and int(last) < int(first):
            return 0, length, 200  # no valid range, hence none
    return (start, end, 206) if start < end else (0, 0, 416)
