"""Vectors in, answers out: queries that wait are searched together, and their answers written as JSON."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from prunnet.errors import FamilyError, SearchError
from prunnet.network import Embeddings
from prunnet.search import Hit, VectorIndex
from prunnet.search.guard import check_vectors
from prunnet.serve.batching import Batcher
from prunnet.serve.limits import Limits
from prunnet.serve.messages import PRIVATE, Metadata
from prunnet.serve.metrics import Histogram
from prunnet.serve.pictures import Pictures

PLACE = "this gallery"
TOGETHER = 64  # requests; more would make the first of them wait for the last

Question = tuple[str, int, str]
"""Family, k and filter, which searches that are made together share."""


class OtherFamilyError(FamilyError):
    """A question of a family that the gallery does not know."""


class Answering:
    """Asks `index`, in a thread of its own."""

    def __init__(self, index: VectorIndex, pictures: Pictures, limits: Limits, sizes: Histogram) -> None:
        self._index = index
        self._pictures = pictures
        self._limits = limits
        self._dimension = index.dimension
        self._batcher: Batcher[Question, Tensor, bytes] = Batcher(self._search, TOGETHER, sizes.observe)

    async def __call__(self, vectors: Tensor, family_id: str, k: int, where: Metadata | None = None) -> bytes:
        """The answers as JSON."""
        limits = self._limits
        if len(vectors) > limits.queries:
            raise SearchError(f"at most {limits.queries} queries are asked at once; found {len(vectors)}")
        if not 1 <= k <= limits.k:
            raise SearchError(f"k is how many answers are wanted, 1 to {limits.k}; found {k}")
        check_where(where, limits)
        queries = check_vectors(Embeddings(vectors, family_id, 1.0), self._dimension, PLACE)
        return await self._batcher((family_id, k, json.dumps(where or {}, sort_keys=True)), queries)

    def _search(self, question: Question, asked: Sequence[Tensor]) -> list[bytes]:
        family_id, k, where = question
        try:
            found = self._index.search(Embeddings(torch.cat([*asked]), family_id, 1.0), k, json.loads(where) or None)
        except FamilyError:
            raise OtherFamilyError(
                f"the query is of family {family_id}, the gallery of family {self._index.family_id}: load the model "
                "of that family"
            ) from None
        answers = iter([[self._answer(hit) for hit in hits] for hits in found])
        current = self._index.family_id
        return [_written(current, [next(answers) for _ in range(len(queries))]) for queries in asked]

    def _answer(self, hit: Hit) -> dict[str, Any]:
        record = hit.record
        metadata = {key: value for key, value in record.metadata.items() if key not in PRIVATE}
        return {
            "id": record.id,
            "score": round(hit.score, 7),
            "label": metadata.get("label"),
            "metadata": metadata,
            "image": self._pictures.address(record),
            "generation": record.family_id,
            "capacity": record.capacity,
        }


def check_where(where: Mapping[str, Any] | None, limits: Limits) -> None:
    """Refuse filters with too many conditions, or on what is not told."""
    if where and len(where) > limits.conditions:
        raise SearchError(f"a filter has at most {limits.conditions} conditions; found {len(where)}")
    if hidden := {*(where or ())} & {*PRIVATE}:
        raise SearchError(f"{min(hidden)} is not told, and nothing to filter by")


def _written(family_id: str, answers: list[list[dict[str, Any]]]) -> bytes:
    content: dict[str, Any] = {"family_id": family_id, "answers": answers[0]}
    if len(answers) > 1:
        content["queries"] = answers
    return json.dumps(content).encode()
