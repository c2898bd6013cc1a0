"""What a search gives back."""

from collections.abc import Callable
from typing import NamedTuple

from prunnet.search.columns import Value


class Record(NamedTuple):
    """What a gallery knows about a vector: its id and metadata, and the member and generation that made it."""

    id: str
    metadata: dict[str, Value]
    capacity: float
    family_id: str


class Hit:
    """One answer: how similar it is (the cosine), and what the gallery knows about it, read when it is asked for."""

    __slots__ = ("_found", "_read", "score")

    def __init__(self, score: float, read: Callable[[], Record]) -> None:
        self.score = score
        self._read = read
        self._found: Record | None = None

    @property
    def record(self) -> Record:
        if self._found is None:
            self._found = self._read()
        return self._found

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def metadata(self) -> dict[str, Value]:
        return self.record.metadata

    @property
    def capacity(self) -> float:
        """Of the member that made the vector."""
        return self.record.capacity

    @property
    def family_id(self) -> str:
        """Of the generation that made the vector."""
        return self.record.family_id

    def __repr__(self) -> str:
        return f"Hit({self.id!r}, {self.score:.4f})"


Answers = list[list[Hit]]
"""For every query its nearest, nearest first."""
