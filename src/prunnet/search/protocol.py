"""`prunnet.VectorIndex`: one protocol for every place where the vectors of a family are kept and asked."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from prunnet.network import Embeddings, Family
from prunnet.search.answers import Answers, Record
from prunnet.search.columns import Metadata


class VectorIndex(ABC):
    """The vectors of a family with their ids and metadata: `add`, `remove`, `search`, `len`, `flush`.

    Members of the family mix freely: what the dense network indexed is asked by a small one. Another family is refused.

    Example:
        index = prunnet.VectorIndex.create("gallery/", net)
        index.add(net.encode(images), ids, [{"store": "7"}, {"store": "9"}])
        index.search(small.encode(photo), k=10, where={"store": "7"})
    """

    dimension: int
    """The length of its vectors."""

    @staticmethod
    def create(place: str | os.PathLike[str], network: Family | Embeddings) -> "VectorIndex":
        """An empty index for the family of `network`, in a new folder `place`.

        network: any member of the family, or embeddings that one made.
        """
        from prunnet.search.folder import FolderIndex

        dimension = network.embedding_dim if isinstance(network, Family) else network.vectors.shape[-1]
        return FolderIndex.make(place, network.family_id, dimension)

    @staticmethod
    def open(place: str | os.PathLike[str]) -> "VectorIndex":
        """The index in the folder `place`, if every file in it is what was written."""
        from prunnet.search.folder import FolderIndex

        return FolderIndex(place)

    @property
    @abstractmethod
    def family_id(self) -> str:
        """Of the newest generation, which new vectors are of."""

    @abstractmethod
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

    @abstractmethod
    def remove(self, ids: Iterable[str]) -> None:
        """Remove vectors, all of them or, if one is not there, none."""

    @abstractmethod
    def search(self, embeddings: Embeddings, k: int = 10, where: Metadata | None = None) -> Answers:
        """For each query its `k` nearest, nearest first, or as many as there are.

        where: only vectors whose metadata have these values.
        """

    @abstractmethod
    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        """What is known about those of `ids` that are there."""

    def refresh(self) -> None:  # noqa: B027 - most see at once what others write
        """See what others have written since this was opened."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __contains__(self, id: object) -> bool: ...

    @abstractmethod
    def flush(self) -> None:
        """Make search fast for what was added: build or extend the approximate index, if there are enough vectors."""
