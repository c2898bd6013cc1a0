"""What stands before every request: who asks, how much, how long, and what browsers may do with the answer."""

import asyncio
import time
from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prunnet.serve.limits import Limits
from prunnet.serve.metrics import Metrics
from prunnet.serve.tokens import Tokens

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob: data:",
        "media-src 'self' blob:",
        "style-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(self)",
}
METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS")
OPEN = ("/", "/healthz", "/readyz")
STATIC = ("/page/", "/js/")
"""These need no token: the page holds nothing of the gallery."""
WRITES = ("/v1/vectors",)
"""What a browser's cookie is not enough for, since other sites can make a browser send it."""
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


class RefusedError(Exception):
    """An answer instead of what was asked for."""

    def __init__(self, status: int, detail: str, **headers: str) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def response(self) -> JSONResponse:
        return JSONResponse({"detail": str(self)}, self.status, self.headers)


class Guard:
    """Wraps an application.

    hosts: names under which it may be asked; empty: under any.
    origins: sites whose pages may read its answers.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        metrics: Metrics,
        tokens: Tokens | None = None,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
    ) -> None:
        self.app = app
        self.limits = limits
        self.metrics = metrics
        self.headers = {**HEADERS, **({} if origins else {"Cross-Origin-Resource-Policy": "same-origin"})}
        self._tokens = tokens
        self._hosts = {host.lower() for host in hosts}
        self._preflights = bool(origins)
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await _Exchange(self, scope, receive, send).run()
        else:
            await send({"type": "websocket.close", "code": 1000})

    def check(self, scope: Scope, headers: Headers) -> None:
        """Refuse what may not be asked, before anything is read of it."""
        if self._hosts and _name(headers.get("host", "")) not in self._hosts:
            raise RefusedError(421, "the service is not known by that name; --allow-host names it")
        if self.metrics.running > self.limits.requests:
            raise RefusedError(503, "too many requests are being answered; ask again", retry_after="1")
        if self._tokens is None or (self._preflights and scope["method"] == "OPTIONS"):
            return
        path = scope["path"]
        if path in OPEN or path.startswith(STATIC):
            return
        if not self._tokens.accept(headers, cookie=path not in WRITES):
            raise RefusedError(401, "a token is needed: Authorization: Bearer TOKEN", www_authenticate="Bearer")

    def hold(self, size: int) -> None:
        """Count bytes of bodies that are in memory."""
        if size > 0 and self._held + size > self.limits.bodies:
            raise RefusedError(503, "too much is being received at once; ask again", retry_after="1")
        self._held += size


class _Exchange:
    """One request and its answer."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._guard = guard
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body: bytes | None = None
        self._arrived = False
        self._held = 0
        self._status = 0
        self._began = time.perf_counter()
        self._deadline = asyncio.timeout(guard.limits.seconds)

    async def run(self) -> None:
        guard = self._guard
        guard.metrics.running += 1
        try:
            guard.check(self._scope, Headers(scope=self._scope))
            async with self._deadline:
                self._body = await self._read()
                self._arrived = True
                await guard.app(self._scope, self._replay, self._answer_in_time)
        except RefusedError as refused:
            await refused.response()(self._scope, self._receive, self._answer)
        except TimeoutError:
            if not self._deadline.expired():
                raise
            await self._late().response()(self._scope, self._receive, self._answer)
        finally:
            if not self._status:
                guard.metrics.running -= 1
            guard.hold(-self._held)

    def _late(self) -> RefusedError:
        seconds = f"{self._guard.limits.seconds:g} seconds"
        if not self._arrived:
            return RefusedError(408, f"the request took longer than {seconds} to arrive", connection="close")
        return RefusedError(503, f"this took longer than {seconds}", retry_after="1")

    async def _read(self) -> bytes:
        """The whole body, as far as it is allowed."""
        limit = self._guard.limits.body
        too_large = RefusedError(413, f"a request has at most {limit:,} bytes", connection="close")
        claimed = Headers(scope=self._scope).get("content-length", "0")
        if claimed.isdigit() and int(claimed[:20]) > limit:
            raise too_large
        parts: list[bytes] = []
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise RefusedError(400, "the request ended before its body did")
            part = message.get("body", b"")
            self._guard.hold(len(part))
            self._held += len(part)
            if self._held > limit:
                raise too_large
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _replay(self) -> Message:
        if self._body is None:
            return await self._receive()  # how an application learns that nobody listens any more
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def _answer_in_time(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._deadline.reschedule(None)  # from now on nothing but the reader takes time
        await self._answer(message)

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begin(message)
        await self._send(message)

    def _begin(self, message: Message) -> None:
        self._status = message["status"]
        headers = MutableHeaders(scope=message)
        for name, value in self._guard.headers.items():
            headers.setdefault(name, value)
        metrics, method = self._guard.metrics, self._scope["method"]
        route = getattr(self._scope.get("route"), "path", "other")
        metrics.running -= 1
        metrics.finished(
            method if method in METHODS else "other", route, self._status, time.perf_counter() - self._began
        )


def _name(host: str) -> str:
    """Without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
