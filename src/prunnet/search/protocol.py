"""`prunnet.VectorIndex`: one protocol for every place where the vectors of a family are kept and asked."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Self

from torch import Tensor

from prunnet.errors import SearchError
from prunnet.network import Embeddings, Family
from prunnet.search.answers import Answers, Record
from prunnet.search.columns import Metadata, Value
from prunnet.search.engine import Vectors
from prunnet.search.guard import LONGEST_ID, check_family, check_ids, check_metadata, check_vectors
from prunnet.search.manifest import Generation

Place = str | os.PathLike[str]
MEMORY = "4GB"
"""Bound of an approximate index."""


class VectorIndex(ABC):
    """The vectors of a family with their ids and metadata: `add`, `remove`, `search`, `len`, `flush`.

    Members of the family mix freely: what the dense network indexed is asked by a small one. Another family is refused.

    Example:
        index = prunnet.VectorIndex.create("gallery/", net)
        index.add(net.encode(images), ids, [{"store": "7"}, {"store": "9"}])
        index.search(small.encode(photo), k=10, where={"store": "7"})
    """

    longest_id = LONGEST_ID
    """In bytes."""

    @staticmethod
    def create(place: Place, network: Family | Embeddings) -> "VectorIndex":
        """An empty index for the family of `network`, in a new folder or, by its address, in a store.

        place: a folder, `postgresql://…` or `milvus://…`.
        network: any member of the family, or embeddings that one made.
        """
        from prunnet.search.places import engine_for

        dimension = network.embedding_dim if isinstance(network, Family) else network.vectors.shape[-1]
        return engine_for(place).make(place, network.family_id, dimension)

    @staticmethod
    def open(place: Place) -> "VectorIndex":
        """The index in a folder, if every file in it is what was written, or in the store with this address."""
        from prunnet.search.places import engine_for

        return engine_for(place)(place)

    @abstractmethod
    def __init__(self, place: Place) -> None: ...

    @classmethod
    @abstractmethod
    def make(cls, place: Place, family_id: str, dimension: int, made_with: str | None = None) -> Self:
        """A new one, empty; `made_with` is where a network is stored that embeds for it."""

    @classmethod
    @abstractmethod
    def exists(cls, place: Place) -> bool:
        """Whether there is one, which need not be whole."""

    @classmethod
    @abstractmethod
    def check(cls, place: Place) -> tuple[list[str], int]:
        """What is wrong with the one that is there, a line each, and how many vectors it has."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is; an address is shown without its password."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """The length of its vectors."""

    @property
    @abstractmethod
    def generations(self) -> tuple[Generation, ...]:
        """The families whose members ask it, and made its vectors; the last is the one that vectors are to be of."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """What it takes on the disk."""

    @property
    def family_id(self) -> str:
        """Of the newest generation, which new vectors are of."""
        return self.generations[-1].family_id

    @property
    def made_with(self) -> str:
        """Where the network is stored that it was built with."""
        place = self.generations[-1].made_with
        if place is None:
            raise SearchError(f"{self.place} does not know a network of its family, {self.family_id}; say --model")
        return place

    # writing

    @abstractmethod
    def writing(self) -> AbstractContextManager[None]:
        """Be the one that writes, for all calls within; another process that wants to gets a `BusyError`."""

    def add(
        self,
        embeddings: Embeddings,
        ids: Iterable[str],
        metadata: Sequence[Metadata] | Metadata | None = None,
        *,
        replace: bool = True,
    ) -> None:
        """Add vectors, all of them or, if anything fails, none; when it returns they are on the disk.

        metadata: a mapping for each, or one for all; values are texts, numbers or truth values.
        replace: what to do with ids that are there already: replace them, or refuse the call.
        """
        vectors = check_vectors(embeddings, self.dimension, self.place).numpy()
        names = check_ids(ids, len(vectors), self.longest_id)
        described = check_metadata(metadata, len(vectors))
        with self._changing():
            generation = check_family(embeddings.family_id, self.generations, self.place, adding=True)
            if not replace and (present := self.records(names)):
                raise SearchError(f"{self.place} already holds {next(iter(present))!r}; replace=True replaces it")
            if names:
                self._add(vectors, names, described, embeddings.capacity, generation)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove vectors, all of them or, if one is not there, none."""
        names = check_ids(ids)
        with self._changing():
            if names and (missing := self._remove(names)):
                raise SearchError(f"{self.place} holds no {missing[0]!r}; nothing was removed")

    def _changing(self) -> AbstractContextManager[None]:
        """A context in which all that is written counts, or nothing; what the index says of itself is as of now."""
        return self.writing()

    @abstractmethod
    def _add(
        self, vectors: Vectors, ids: list[str], metadata: list[Metadata], capacity: float, generation: int
    ) -> None:
        """Within `_changing`; ids that are there are replaced."""

    @abstractmethod
    def _remove(self, ids: list[str]) -> list[str]:
        """Within `_changing`; gives back those that are not there, in which case nothing may be removed."""

    @abstractmethod
    def set_generations(self, generations: Sequence[Generation]) -> None:
        """Which families it knows; the last is the one that vectors are to be of."""

    @abstractmethod
    def flush(self, memory: str | float = MEMORY) -> None:
        """Make search fast for what was added: build or extend the approximate index, if there are enough vectors.

        memory: bound of its bytes, where it is held by this process.
        """

    @abstractmethod
    def compact(self, memory: str | float = MEMORY) -> None:
        """Free the room of what was removed or replaced, and bring the approximate index up to date."""

    # asking

    @abstractmethod
    def search(self, embeddings: Embeddings, k: int = 10, where: Metadata | None = None) -> Answers:
        """For each query its `k` nearest, nearest first, or as many as there are.

        where: only vectors whose metadata have these values.
        """

    @abstractmethod
    def refresh(self) -> None:
        """See what others have written since this was opened."""

    @abstractmethod
    def __len__(self) -> int: ...

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and bool(id) and id in self.records([id])

    def __repr__(self) -> str:
        return f"VectorIndex({self.place!r}, {len(self):,} vectors of family {self.family_id})"

    @abstractmethod
    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        """What is known about those of `ids` that are there."""

    @abstractmethod
    def holding(self, key: str, values: Iterable[Value]) -> set[Value]:
        """Those of `values` that the metadata of some vector have under `key`."""

    @abstractmethod
    def older(self) -> list[Record]:
        """What is not of the newest generation."""

    @abstractmethod
    def scan(self) -> Iterator[tuple[Tensor, list[Record]]]:
        """All that it holds, a block of vectors at a time."""

    @abstractmethod
    def made_by(self) -> dict[tuple[str, float], int]:
        """How many vectors each member has made, by family and capacity."""

    @abstractmethod
    def notes(self) -> list[str]:
        """How it is searched and what it could do with, a line each."""
