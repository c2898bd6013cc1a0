"""Starts the service, and ends it when the system asks: what was accepted is answered first."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from prunnet.errors import MissingExtraError, ServiceError
from prunnet.search import VectorIndex
from prunnet.serve.limits import Limits

SECONDS_TO_END = 30
CONNECTIONS = 2048
WAITING = 2048  # connections that the system holds before they are accepted


def serve(
    gallery: str,
    family: str | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    writable: bool = False,
    token_file: Path | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    images: Path | None = None,
    queries: str | None = None,
    limits: Limits | None = None,
    ready: Callable[[str], None] = lambda address: None,  # noqa: ARG005
) -> None:
    """Serve `gallery` until the process is asked to end.

    family: a run, a family or a `.prun` file; default: what the gallery was built with.
    ready: is called with the address once it can be asked.
    """
    try:
        import uvicorn

        from prunnet.serve.app import make_app
    except ImportError as error:
        if (error.name or "").startswith("prunnet"):
            raise
        raise MissingExtraError("fastapi and uvicorn", "serve", "the service") from None

    from prunnet.serve.guard import LOOPBACK, is_loopback
    from prunnet.serve.model import ServedModel
    from prunnet.serve.queries import example_queries
    from prunnet.serve.tokens import Tokens

    tokens = None if token_file is None else Tokens(token_file)
    index = VectorIndex.open(gallery)
    model = ServedModel.open(family or index.made_with)
    _check_fit(index, model.family_id)
    names = (*LOOPBACK, host, *hosts) if is_loopback(host) or hosts else ()
    app = make_app(
        index,
        model,
        queries=example_queries(index, model, queries),
        images=images,
        limits=limits,
        writable=writable,
        tokens=tokens,
        hosts=names,
        origins=origins,
    )
    with listen(host, port) as listening:
        config = uvicorn.Config(
            app,
            http="h11",  # bounds what a request line and headers may take
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            limit_concurrency=CONNECTIONS,
            backlog=WAITING,
            timeout_graceful_shutdown=SECONDS_TO_END,
        )
        shown = f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{listening.getsockname()[1]}/")
        uvicorn.Server(config).run([listening])


def _check_fit(index: VectorIndex, family_id: str) -> None:
    if family_id not in {generation.family_id for generation in index.generations}:
        raise ServiceError(
            f"{index.place} is a gallery of family {index.family_id}, and --family is of family {family_id}; name a "
            "member of that family"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket whose connections send at once. Otherwise an answer's body, which is written after its head, would wait
    until the other side acknowledges the head, which takes it 40 ms.
    """
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=kind, backlog=WAITING)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does so only if it made the socket
        return listening
    except (OSError, OverflowError) as error:
        raise ServiceError(f"port {port} of {host} cannot be listened at ({error}); choose another --port") from None
