"""What a search gives back."""

from typing import NamedTuple, Protocol

from prunnet.search.columns import Value


class Record(NamedTuple):
    """What a gallery knows about a vector: its id and metadata, and the member and generation that made it."""

    id: str
    metadata: dict[str, Value]
    capacity: float
    family_id: str


class Records(Protocol):
    """Where the rows of an index are looked up."""

    def id(self, row: int) -> str: ...
    def record(self, row: int) -> Record: ...


class Listed(list[Record]):
    """Rows that are at hand."""

    def id(self, row: int) -> str:
        return self[row].id

    def record(self, row: int) -> Record:
        return self[row]


class Hit:
    """One answer: how similar it is (the cosine), and what the gallery knows about it, read when it is asked for."""

    __slots__ = ("_records", "row", "score")

    def __init__(self, score: float, row: int, records: Records) -> None:
        self.score = score
        self.row = row
        self._records = records

    @property
    def record(self) -> Record:
        return self._records.record(self.row)

    @property
    def id(self) -> str:
        return self._records.id(self.row)

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
