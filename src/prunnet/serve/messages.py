"""What requests say and answers hold."""

import json
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
from pydantic import BaseModel, Field, ValidationError
from torch import Tensor

from prunnet.errors import SearchError
from prunnet.storage.documents import Capacity, Checked, Line

Value = str | int | float | bool
Metadata = dict[Annotated[str, Field(min_length=1, max_length=100)], Value]
Numbers = list[float]
PRIVATE = ("path", "box")
"""Metadata that tell where a picture lies on the server: not told, and not taken from a request."""
DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2")}


class SearchRequest(Checked):
    """One query, or several, of one member."""

    vector: Numbers | None = None
    vectors: list[Numbers] | None = None
    family_id: Line
    k: Annotated[int, Field(ge=1)] = 10
    where: Metadata | None = None

    def queries(self) -> Tensor:
        if (self.vector is None) == (self.vectors is None):
            raise SearchError("give vector, for one query, or vectors, for several")
        return matrix_of([self.vector] if self.vector is not None else self.vectors or [])


class AddRequest(Checked):
    """Vectors with their ids, made by the member at `capacity`."""

    ids: list[str]
    vectors: list[Numbers]
    family_id: Line
    capacity: Capacity = 1.0
    metadata: list[Metadata] | Metadata | None = None
    replace: bool = True


class RemoveRequest(Checked):
    """Ids of what is to be removed."""

    ids: list[str]


class Answer(BaseModel):
    """An image of the gallery: how similar it is, and what is known about it."""

    id: str
    score: float
    label: Value | None = None
    metadata: dict[str, Value] = {}
    image: str | None = None
    generation: str
    capacity: float


class SearchResponse(BaseModel):
    """The answers to the first query; to each, where there were several."""

    family_id: str
    answers: list[Answer]
    queries: list[list[Answer]] | None = None


class Changed(BaseModel):
    """How many vectors a request changed, and how many there are now."""

    changed: int
    count: int


class Prefix(BaseModel):
    """A member: how many bytes of the file it takes, and how well it does in the gallery of the dense network."""

    capacity: float
    bytes: int
    measured: float | None


class Matrix(BaseModel):
    """`values[query][gallery]`, in the order of `capacities`."""

    capacities: list[float]
    metric: str
    values: list[list[float]]


class FamilyResponse(BaseModel):
    """What a device has to know to ask."""

    family_id: str
    dimension: int
    generation: str
    capacities: list[Prefix]
    preprocessing: dict[str, Any]
    matrix: Matrix | None
    count: int
    labels: bool
    kind: str
    queries: list[str]
    model: str
    images: bool


class QueryResponse(BaseModel):
    """A picture to ask with."""

    image: str
    label: str | None


class Problem(BaseModel):
    """What is wrong, in one sentence."""

    detail: str


Message = TypeVar("Message", bound=BaseModel)


def parse(kind: type[Message], body: bytes) -> Message:
    """The message that a JSON body is, or one sentence that says where it is wrong."""
    try:
        return kind.model_validate_json(body)
    except RecursionError:
        raise SearchError("the request is nested too deeply") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))[:100]
        raise SearchError(f"{where or 'the request'}: {' '.join(first['msg'].split())[:200]}") from None


def parse_where(text: str | None) -> Metadata | None:
    """A filter that is given as JSON in an address."""
    return None if not text else parse(SearchRequest, _with_where(text)).where


def _with_where(text: str) -> bytes:
    try:
        return json.dumps({"family_id": "-", "where": json.loads(text)}).encode()
    except (ValueError, RecursionError):
        raise SearchError("where is no JSON object") from None


def matrix_of(rows: list[Numbers]) -> Tensor:
    """Lists of numbers as rows."""
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise SearchError("vectors are lists of numbers, all of one length, and there is at least one")
    return torch.tensor(rows, dtype=torch.float32)


def matrix_from(body: bytes, dimension: int, dtype: str) -> Tensor:
    """Little-endian numbers as rows of `dimension`."""
    if dtype not in DTYPES:
        raise SearchError(f"dtype is float32 or float16; found {dtype[:20]!r}")
    width = DTYPES[dtype].itemsize * dimension
    if not body or len(body) % width:
        raise SearchError(f"a vector of {dimension} {dtype} numbers has {width} bytes; found {len(body)}")
    return torch.from_numpy(np.frombuffer(body, DTYPES[dtype]).astype(np.float32).reshape(-1, dimension))
