"""What indexes on a server have in common: they are asked by an address, check before they send, and describe
themselves in a small document beside their vectors.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from prunnet.errors import FamilyError, SearchError
from prunnet.network import Embeddings
from prunnet.search.answers import Answers, Hit, Listed, Record
from prunnet.search.columns import Metadata, Value, checked
from prunnet.search.guard import check_family, check_ids, check_k, check_metadata, check_vectors
from prunnet.search.manifest import FORMAT, Generation, Share
from prunnet.search.protocol import Place, VectorIndex
from prunnet.search.stores.address import Address
from prunnet.search.stores.texts import restored, restored_metadata
from prunnet.storage.documents import Checked, Size, parse

Vectors = npt.NDArray[np.float32]
Found = list[list[tuple[float, Record]]]
"""For every query similarities and what they belong to, nearest first."""

WANTED = 0.97
"""Recall@10 on the sample, as in a folder."""
FIRST = 10
SAMPLE = 64


class Measured(Checked):
    """How many candidates a query looks at in the approximate index, and what share of the true first ten it finds."""

    candidates: Size
    recall: Share
    sample: Size


class Description(Checked):
    """What a store keeps about an index beside its vectors."""

    format: Literal["prunnet-gallery"] = FORMAT
    version: Literal[1] = 1
    dimension: Size
    generations: Annotated[tuple[Generation, ...], Field(min_length=1)]
    measured: Measured | None = None

    @classmethod
    def read(cls, content: object, place: str) -> Self:
        content = content if isinstance(content, dict) else {}
        if (version := content.get("version", 1)) != 1:
            raise SearchError(f"{place} is of version {version}, which this prunnet is too old for")
        return parse(cls, content, place)

    def text(self) -> str:
        return json.dumps(self.model_dump(mode="json"))


class ServerIndex(VectorIndex):
    """An index at an address; one thread of this process speaks to the server at a time."""

    longest_id: int
    """In bytes."""
    _description: Description

    def __init__(self, place: Place) -> None:
        self.address = Address.parse(str(place))
        self._writes = 0

    @property
    def place(self) -> str:
        return self.address.shown

    @property
    def dimension(self) -> int:
        return self._description.dimension

    @property
    def generations(self) -> tuple[Generation, ...]:
        return self._description.generations

    # writing

    def add(
        self,
        embeddings: Embeddings,
        ids: Iterable[str],
        metadata: Sequence[Metadata] | Metadata | None = None,
        *,
        replace: bool = True,
    ) -> None:
        vectors = check_vectors(embeddings, self.dimension, self.place).numpy()
        names = check_ids(ids, len(vectors), self.longest_id)
        described = [checked(values) for values in check_metadata(metadata, len(vectors))]
        with self._changing():
            generation = check_family(embeddings.family_id, self.generations, self.place, adding=True)
            if not replace and (present := self.records(names)):
                raise SearchError(f"{self.place} already holds {next(iter(present))!r}; replace=True replaces it")
            if names:
                self._add(vectors, names, described, embeddings.capacity, generation)

    def remove(self, ids: Iterable[str]) -> None:
        names = check_ids(ids)
        with self._changing():
            if names and (missing := self._remove(names)):
                raise SearchError(f"{self.place} holds no {missing[0]!r}; nothing was removed")

    def set_generations(self, generations: Sequence[Generation]) -> None:
        with self.writing():
            self._describe(self._description.model_copy(update={"generations": tuple(generations)}))

    @abstractmethod
    def _changing(self) -> AbstractContextManager[None]:
        """A context in which all that is written counts, or nothing; its description is as of now."""

    @abstractmethod
    def _add(
        self, vectors: Vectors, ids: list[str], metadata: list[dict[str, Value]], capacity: float, generation: int
    ) -> None:
        """Within `_changing`; ids that are there are replaced."""

    @abstractmethod
    def _remove(self, ids: list[str]) -> list[str]:
        """Within `_changing`; gives back those that are not there, in which case nothing may be removed."""

    @abstractmethod
    def _describe(self, description: Description) -> None:
        """Make this its description."""

    # asking

    def search(self, embeddings: Embeddings, k: int = 10, where: Metadata | None = None) -> Answers:
        check_k(k)
        queries = check_vectors(embeddings, self.dimension, self.place).numpy()
        self._know(embeddings.family_id)
        found = self._nearest(queries, k, checked(where or {})) if len(queries) else []
        return [
            [Hit(score, row, Listed([record for _, record in hits])) for row, (score, _) in enumerate(hits)]
            for hits in found
        ]

    @abstractmethod
    def _nearest(self, queries: Vectors, k: int, where: dict[str, Value]) -> Found: ...

    def _know(self, family_id: str) -> None:
        """Refuse a family that has nothing to do with this one."""
        try:
            check_family(family_id, self.generations, self.place, adding=False)
        except FamilyError:
            self.refresh()  # an upgrade may have begun since
            check_family(family_id, self.generations, self.place, adding=False)

    def _record(self, id: str, metadata: Mapping[str, Value], capacity: float, generation: int) -> Record:
        if not 0 <= generation < len(self.generations):
            self.refresh()
        return Record(restored(id), restored_metadata(metadata), capacity, self.generations[generation].family_id)

    def _by_family(self, counts: Iterable[tuple[int, float, int]]) -> dict[tuple[str, float], int]:
        found = {(self.generations[number].family_id, capacity): count for number, capacity, count in counts}
        return dict(sorted(found.items(), reverse=True))


def recall_of(found: Found, true: Found) -> float:
    """The share of answers that are as near as the true ones; the first is the vector that asks."""
    shares = []
    for answers, right in zip(found, true, strict=True):
        least = right[-1][0] - 1e-6
        shares.append(sum(score >= least for score, _ in answers) / len(right))
    return float(np.mean(shares))
