"""The application: what is answered at which address."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

from prunnet import __version__
from prunnet.errors import BusyError, DamagedError, LibraryError, PrunNetError, SearchError, StoreError
from prunnet.search import VectorIndex
from prunnet.serve.answering import Answering, OtherFamilyError
from prunnet.serve.embedding import Embedding
from prunnet.serve.guard import Guard, RefusedError
from prunnet.serve.limits import Limits
from prunnet.serve.messages import (
    AddRequest,
    Changed,
    FamilyResponse,
    Matrix,
    Prefix,
    Problem,
    QueryResponse,
    RemoveRequest,
    SearchRequest,
    SearchResponse,
    matrix_from,
    parse,
    parse_where,
)
from prunnet.serve.metrics import Metrics
from prunnet.serve.model import ServedModel
from prunnet.serve.pictures import Pictures, Thumbnail
from prunnet.serve.queries import Query, has_label
from prunnet.serve.ranges import FOREVER, FileResponse
from prunnet.serve.static import static_files
from prunnet.serve.tokens import COOKIE, Tokens
from prunnet.serve.writing import Writing

JSON, RAW = "application/json", "application/octet-stream"
DRAWINGS = ("glyphs", "omniglot")
REFRESH_SECONDS = 2.0
_LOG = logging.getLogger(__name__)


def make_app(
    index: VectorIndex,
    model: ServedModel,
    *,
    queries: Sequence[Query] = (),
    images: Path | None = None,
    limits: Limits | None = None,
    writable: bool = False,
    tokens: Tokens | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
) -> ASGIApp:
    """An ASGI application that answers from `index`, and hands out `model` to ask it with.

    queries: pictures to try.
    images: the folder in which the gallery's pictures are now, if they have moved.
    writable: whether vectors may be added and removed.
    tokens: of those who may ask; None: everybody may.
    hosts: names under which it may be asked; empty: under any.
    origins: sites whose pages may read its answers.
    """
    service = _Service(index, model, queries, images, limits or Limits(), writable, tokens)
    app = FastAPI(
        title="PrunNet",
        version=__version__,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        lifespan=service.lifespan,
        exception_handlers={PrunNetError: _mendable, RefusedError: _refused, Exception: _unexpected},
    )
    service.add_routes(app)
    if origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=[*origins],
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "If-Range", "Range", "X-Family-Id"],
            expose_headers=["Content-Range", "ETag"],
        )
    return Guard(app, service.limits, service.metrics, tokens, hosts, origins)


class _Service:
    """What requests are answered from."""

    def __init__(
        self,
        index: VectorIndex,
        model: ServedModel,
        queries: Sequence[Query],
        images: Path | None,
        limits: Limits,
        writable: bool,
        tokens: Tokens | None,
    ) -> None:
        self.index = index
        self.model = model
        self.queries = queries
        self.limits = limits
        self.writable = writable
        self.tokens = tokens
        self.metrics = Metrics()
        self.pictures = Pictures(index, images)
        self.files = static_files()
        self.answering = Answering(index, self.pictures, limits, self.metrics.searched)
        self.embedding = Embedding(model, self.metrics.embedded)
        self.writing = Writing(index, limits)

    def add_routes(self, app: FastAPI) -> None:
        def add(
            method: str, path: str, answer: Callable[..., Any], kind: Any, takes: Any = None, *, hidden: bool = False
        ) -> None:
            app.add_api_route(
                path,
                answer,
                methods=[method],
                response_class=Response,
                response_model=None,
                responses={200: {"model": kind} if kind else {}, "4XX": {"model": Problem}, 503: {"model": Problem}},
                openapi_extra=takes,
                include_in_schema=not hidden,
            )

        add("POST", "/v1/search", self.search, SearchResponse, _takes(SearchRequest, RAW))  # the first that is tried
        add("POST", "/v1/search/image", self.search_image, SearchResponse, _takes(None, "image/*"))
        add("GET", "/v1/family", self.family, FamilyResponse)
        add("GET", "/v1/model.prun", self.model_file, None)
        add("HEAD", "/v1/model.prun", self.model_file, None, hidden=True)
        add("GET", "/v1/queries", self.list_queries, list[QueryResponse])
        add("GET", "/v1/queries/{number}", self.query, None)
        add("GET", "/v1/images/{token}", self.image, None)
        add("POST", "/v1/vectors", self.add, Changed, _takes(AddRequest))
        add("DELETE", "/v1/vectors", self.remove, Changed, _takes(RemoveRequest))
        add("POST", "/v1/session", self.session, None)
        add("GET", "/healthz", self.alive, None)
        add("GET", "/readyz", self.ready, None)
        add("GET", "/metrics", self.show_metrics, None)
        for address in self.files:
            for method in ("GET", "HEAD"):
                add(method, address, self.file, None, hidden=True)

    @asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:  # noqa: ARG002
        task = asyncio.create_task(self._refresh())
        yield
        task.cancel()

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self.writing.refresh()
            except (PrunNetError, OSError):
                continue  # what is open goes on answering

    # asking

    async def search(self, request: Request) -> Response:
        """The nearest images to a vector: JSON, or little-endian numbers with `X-Family-Id`, `?k=`, `?dtype=`."""
        body, kind = await request.body(), _content_type(request)
        if kind == RAW:
            asked = request.query_params
            vectors = matrix_from(body, self.index.dimension, asked.get("dtype", "float32"))
            family_id = request.headers.get("x-family-id", "")
            found = await self.answering(vectors, family_id, _number(asked, "k", 10), parse_where(asked.get("where")))
        elif kind == JSON:
            told = parse(SearchRequest, body)
            found = await self.answering(told.queries(), told.family_id, told.k, told.where)
        else:
            raise RefusedError(415, f"a question is {JSON} or {RAW}")
        return Response(found, media_type=JSON)

    async def search_image(self, request: Request) -> Response:
        """The nearest images to a picture, whose file is the body; `?capacity=` says which member embeds it."""
        body, asked = await request.body(), request.query_params
        capacity = _real(asked, "capacity")
        where = parse_where(asked.get("where"))
        vector = await self.embedding(body, capacity)
        found = await self.answering(vector, self.model.family_id, _number(asked, "k", 10), where)
        return Response(found, media_type=JSON)

    async def family(self) -> Response:
        """The family, its members with the bytes that each takes, and what was measured of them."""
        return _json(await asyncio.to_thread(self._family))

    def _family(self) -> FamilyResponse:
        model, measured = self.model, self.model.measured()
        return FamilyResponse(
            family_id=model.family_id,
            dimension=self.index.dimension,
            generation=self.index.family_id,
            capacities=[
                Prefix(capacity=capacity, bytes=size, measured=model.in_dense_gallery(capacity))
                for capacity, size in model.prefixes.items()
            ],
            preprocessing=model.header.preprocessing.model_dump(),
            matrix=None if measured is None else Matrix(**measured),
            count=len(self.index),
            labels=has_label(self.index),
            kind="drawing" if self._drawings else "photo",
            queries=[f"/v1/queries/{number}" for number in range(len(self.queries))],
            model=f"/v1/model.prun?id={model.digest}",
            images=True,
        )

    @property
    def _drawings(self) -> bool:
        run = self.model.run
        return self.model.header.preprocessing.input_size[0] == 1 or (run is not None and run.config.data in DRAWINGS)

    # files

    async def model_file(self, request: Request) -> Response:
        """The progressive file, whole or by ranges; `?id=` is its SHA-256, with which it may be kept for ever."""
        wanted = request.query_params.get("id")
        if wanted not in (None, self.model.digest):
            raise RefusedError(404, "the model is another one now: ask /v1/family for its address")
        who = "public" if self.tokens is None else "private"
        caching = "no-cache" if wanted is None else f"{who}, {FOREVER}"
        return FileResponse(self.model.file, self.model.digest, request.headers, caching=caching)

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        found = self.files[request.scope["route"].path]
        answer = FileResponse(found.content, found.digest, request.headers, caching="no-cache")
        answer.headers["Content-Type"] = found.media_type
        return answer

    async def image(self, request: Request) -> Response:
        """A small picture of an image of the gallery."""
        return _picture(await asyncio.to_thread(self.pictures.get, request.path_params["token"]))

    async def list_queries(self) -> Response:
        """Pictures to try."""
        known = [{"image": f"/v1/queries/{place}", "label": query.label} for place, query in enumerate(self.queries)]
        return JSONResponse(known)

    async def query(self, request: Request) -> Response:
        """One of them."""
        number = request.path_params["number"]
        there = number.isdecimal() and len(number) < 9 and int(number) < len(self.queries)
        return _picture(self.queries[int(number)].picture if there else None)

    # writing

    async def add(self, request: Request) -> Response:
        """Add vectors; when it answers they are on the disk."""
        return _json(await self.writing.add(parse(AddRequest, await self._written(request))))

    async def remove(self, request: Request) -> Response:
        """Remove vectors."""
        return _json(await self.writing.remove(parse(RemoveRequest, await self._written(request))))

    async def _written(self, request: Request) -> bytes:
        if not self.writable:
            raise RefusedError(403, "this service is read-only; --writable lets it be changed")
        if _content_type(request) != JSON:  # which pages of other sites cannot send unasked
            raise RefusedError(415, f"a change is {JSON}")
        return await request.body()

    # looking after it

    async def session(self, request: Request) -> Response:
        """Exchange a token for a cookie, so that a page can show pictures."""
        answer = Response(status_code=204)
        if self.tokens is not None:
            secure = request.url.scheme == "https"
            answer.set_cookie(COOKIE, self.tokens.session, httponly=True, samesite="strict", secure=secure)
        return answer

    async def alive(self) -> Response:
        """Whether the process answers."""
        return PlainTextResponse("ok\n")

    async def ready(self) -> Response:
        """Whether the gallery answers."""
        try:
            await asyncio.to_thread(len, self.index)
        except Exception as error:
            raise RefusedError(503, "the gallery does not answer", retry_after="5") from error
        return PlainTextResponse("ok\n")

    async def show_metrics(self) -> Response:
        """Figures for Prometheus."""
        text = self.metrics.text(await asyncio.to_thread(len, self.index))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _takes(kind: Any, *others: str) -> dict[str, Any]:
    """What a request's body may be, for the description of the service."""
    content: dict[str, Any] = {other: {"schema": {"type": "string", "format": "binary"}} for other in others}
    if kind is not None:
        content[JSON] = {"schema": kind.model_json_schema()}
    return {"requestBody": {"required": True, "content": content}}


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _number(asked: Any, name: str, default: int) -> int:
    text = asked.get(name, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise SearchError(f"{name} is a whole number; found {text[:20]!r}")
    return int(text)


def _real(asked: Any, name: str) -> float | None:
    text = asked.get(name)
    try:
        return None if text is None else float(text)
    except ValueError:
        raise SearchError(f"{name} is a number; found {text[:20]!r}") from None


def _json(content: Any) -> Response:
    return Response(content.model_dump_json(), media_type=JSON)


def _picture(found: Thumbnail | None) -> Response:
    if found is None:
        raise RefusedError(404, "there is no such picture")
    return Response(found.content, media_type=found.media_type, headers={"Cache-Control": "private, max-age=300"})


async def _mendable(request: Request, error: Exception) -> Response:
    """What the one who asks can mend is told; what lies here is not, since it names places."""
    if isinstance(error, BusyError):
        return RefusedError(
            503, "the gallery is being written by another process; ask again", retry_after="1"
        ).response()
    if isinstance(error, StoreError):
        _LOG.error("%s", error)
        return RefusedError(
            503, "the gallery does not answer; the log of the service says why", retry_after="5"
        ).response()
    if isinstance(error, DamagedError | LibraryError):
        _LOG.error("%s", error)
        return await _unexpected(request, error)
    return JSONResponse({"detail": str(error)}, 409 if isinstance(error, OtherFamilyError) else 422)


async def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    assert isinstance(error, RefusedError)
    return error.response()


async def _unexpected(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return JSONResponse({"detail": "the service has failed; its log says how"}, 500)
