"""What indexes on a server have in common: they are asked by an address, check before they send, and describe
themselves in a small document beside their vectors.
"""

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np

from prunnet.errors import FamilyError, SearchError
from prunnet.network import Embeddings
from prunnet.search.answers import Answers, Hit, Listed, Record
from prunnet.search.columns import Metadata, Value, checked
from prunnet.search.engine import Vectors
from prunnet.search.guard import check_family, check_k, check_vectors
from prunnet.search.manifest import Gallery, Generation, Share, check_version
from prunnet.search.protocol import Place, VectorIndex
from prunnet.search.stores.address import Address
from prunnet.search.stores.texts import restored, restored_metadata
from prunnet.storage.documents import Checked, Size, parse

Found = list[list[tuple[float, Record]]]
"""For every query similarities and what they belong to, nearest first."""


class Measured(Checked):
    """How many candidates a query looks at in the approximate index, and what share of the true first ten it finds."""

    candidates: Size
    recall: Share
    sample: Size


class Description(Gallery):
    """What a store keeps about an index beside its vectors."""

    measured: Measured | None = None

    @classmethod
    def read(cls, content: object, place: str) -> Self:
        check_version(content, place)
        return parse(cls, content if isinstance(content, dict) else {}, place)

    def text(self) -> str:
        return json.dumps(self.model_dump(mode="json"))


class ServerIndex(VectorIndex):
    """An index at an address; one thread of this process speaks to the server at a time."""

    _description: Description

    def __init__(self, place: Place) -> None:
        self.address = Address.parse(str(place))
        self._writes = 0

    @classmethod
    def check(cls, place: Place) -> tuple[list[str], int]:
        index = cls(place)
        return index._problems(), len(index)

    @abstractmethod
    def _problems(self) -> list[str]:
        """What is wrong with it, a line each."""

    def refresh(self) -> None:
        description = self._stored()
        if description is None:
            raise SearchError(f"{self.place} is no gallery: make one with prunnet index build --store")
        self._description = description

    @abstractmethod
    def _stored(self) -> Description | None:
        """What the server holds about it, if it is there."""

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

    def set_generations(self, generations: Sequence[Generation]) -> None:
        with self.writing():
            self._describe(self._description.model_copy(update={"generations": tuple(generations)}))

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
    def _nearest(self, queries: Vectors, k: int, where: Metadata) -> Found: ...

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
