"""Changes of the gallery, one after the other: what is acknowledged is on the disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from prunnet.errors import FamilyError, SearchError
from prunnet.network import Embeddings
from prunnet.search import VectorIndex
from prunnet.search.guard import check_ids, check_metadata, check_vectors
from prunnet.serve.answering import PLACE, OtherFamilyError
from prunnet.serve.guard import RefusedError
from prunnet.serve.limits import Limits
from prunnet.serve.messages import PRIVATE, AddRequest, Changed, RemoveRequest, matrix_of

T = TypeVar("T")


class Writing:
    """Adds to `index` and removes from it, and sees what other processes have written, in one thread."""

    def __init__(self, index: VectorIndex, limits: Limits) -> None:
        self._index = index
        self._limits = limits
        self._thread = ThreadPoolExecutor(1)

    async def add(self, asked: AddRequest) -> Changed:
        """All of it or, if anything is wrong, nothing."""
        return await self._alone(lambda: self._add(asked))

    async def remove(self, asked: RemoveRequest) -> Changed:
        """All of them or, if one is not there, none."""
        return await self._alone(lambda: self._remove(asked))

    async def refresh(self) -> None:
        """See what others have written."""
        await self._alone(self._index.refresh)

    async def _alone(self, work: Callable[[], T]) -> T:
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))

    def _add(self, asked: AddRequest) -> Changed:
        self._check_count(len(asked.ids))
        embeddings = Embeddings(matrix_of(asked.vectors), asked.family_id, asked.capacity)
        check_vectors(embeddings, self._index.dimension, PLACE)
        ids = check_ids(asked.ids, len(embeddings))
        metadata = check_metadata(asked.metadata, len(ids))
        if hidden := {key for values in metadata for key in values} & {*PRIVATE}:
            raise SearchError(f"{min(hidden)} cannot be given: the service shows only pictures that it was told of")
        if not asked.replace and (there := next((id for id in ids if id in self._index), None)) is not None:
            raise RefusedError(409, f"{there[:100]!r} is there already; replace: true replaces it")
        try:
            self._index.add(embeddings, ids, metadata, replace=asked.replace)
        except FamilyError:
            raise OtherFamilyError(
                f"the vectors are of family {asked.family_id}, the gallery of family {self._index.family_id}"
            ) from None
        return Changed(changed=len(ids), count=len(self._index))

    def _remove(self, asked: RemoveRequest) -> Changed:
        self._check_count(len(asked.ids))
        ids = check_ids(asked.ids)
        if (missing := next((id for id in ids if id not in self._index), None)) is not None:
            raise RefusedError(404, f"{missing[:100]!r} is not there; nothing was removed")
        self._index.remove(ids)
        return Changed(changed=len(ids), count=len(self._index))

    def _check_count(self, count: int) -> None:
        if count > self._limits.vectors:
            raise SearchError(f"a request changes at most {self._limits.vectors:,} vectors; found {count:,}")
