"""A gallery in Milvus: a collection of vectors, and beside it `…_prunnet`, which says which of them count.

    pk          varchar, primary    digest of the id, and the number of the addition
    key         int64               a number for the id, by which it is found
    id          varchar
    batch       int64               the number of the addition
    capacity    double              of the member that made it
    generation  int64               its place in the generations of the gallery
    metadata    json
    facts       array of int64      a number for each key with its value, by which is filtered
    embedding   float_vector

Milvus has no transactions. An addition is therefore written under a new number, which counts as soon as one last row in
`…_prunnet` says so; then what it replaces is deleted. Rows of a greater number are left over from a call that failed:
they are not seen, and the next that writes deletes them. Nothing keeps two processes from writing at once.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from prunnet.errors import SearchError
from prunnet.search.answers import Record
from prunnet.search.columns import Metadata, Value, as_text
from prunnet.search.engine import Vectors
from prunnet.search.manifest import Generation
from prunnet.search.protocol import MEMORY, Place
from prunnet.search.stores.address import Address
from prunnet.search.stores.milvus_server import ROWS_AT_ONCE, SECONDS, MilvusDescription, Server, create_collections
from prunnet.search.stores.server import Description, Found, ServerIndex
from prunnet.search.stores.texts import restored, stored, stored_metadata

CANDIDATES = 128  # that a query looks at in the HNSW index
MOST_ANSWERS = 16_384  # which Milvus allows
QUERIES_AT_ONCE = 100
FIELDS = ["id", "metadata", "capacity", "generation", "batch"]


class MilvusIndex(ServerIndex):
    """The index in a collection; `VectorIndex.create` makes one."""

    longest_id = 4096
    _description: MilvusDescription

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._server = Server(self.address)
        self._swept = False
        self._behind = True  # whether the server may not yet answer by what was written
        self.refresh()

    @classmethod
    def make(cls, place: Place, family_id: str, dimension: int, made_with: str | None = None) -> "MilvusIndex":
        server = Server(Address.parse(str(place)))
        if (known := server.description()) is not None:
            raise SearchError(
                f"{server.place} already holds a gallery of family {known.generations[-1].family_id}; choose "
                "another name"
            )
        with server.speaking() as client:
            if client.has_collection(server.state):  # left over from a call that failed
                client.drop_collection(server.name)
                client.drop_collection(server.state)
            if client.has_collection(server.name):
                raise SearchError(f"{server.place}: the collection exists and is no gallery; choose another name")
            create_collections(client, server, dimension)
        generations = (Generation.first(family_id, made_with),)
        server.describe(MilvusDescription(dimension=dimension, generations=generations))
        return cls(place)

    @classmethod
    def exists(cls, place: Place) -> bool:
        return Server(Address.parse(str(place))).description() is not None

    def _stored(self) -> MilvusDescription | None:
        return self._server.description()

    @property
    def bytes(self) -> int:
        """Of its vectors; what the server takes for them it does not tell."""
        return 4 * self.dimension * len(self)

    def __len__(self) -> int:
        self.refresh()
        return self._server.count(self._counting())

    def _counting(self) -> str:
        return f"batch <= {self._description.batch}"

    # writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """For this process alone: Milvus has no lock that another could see."""
        with self._server.lock:
            if not self._writes:
                self.refresh()
                self._settle()
            self._writes += 1
            try:
                yield
            finally:
                self._writes -= 1
                self._behind = True

    def _settle(self) -> None:
        """Finish what a call that failed has left."""
        if not self._description.settled:
            for page in self._server.pages(f"batch == {self._description.batch}", ["id"]):
                self._delete_replaced([restored(row["id"]) for row in page])
            self._change(settled=True)
        if not self._swept:
            self._server.delete(f"batch > {self._description.batch}")
            self._swept = True

    def _change(self, **changes: Any) -> None:
        description = self._description.model_copy(update={"revision": self._description.revision + 1, **changes})
        self._server.describe(description)
        self._description = description

    def _describe(self, description: Description) -> None:
        self._change(generations=description.generations)

    def _add(
        self, vectors: Vectors, ids: list[str], metadata: list[Metadata], capacity: float, generation: int
    ) -> None:
        replaces = bool(self.records(ids))
        batch, self._swept = self._description.batch + 1, False
        for start in range(0, len(ids), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            self._insert(
                [
                    {
                        "pk": _primary(id, batch),
                        "key": _number(id),
                        "id": stored(id),
                        "batch": batch,
                        "capacity": capacity,
                        "generation": generation,
                        "metadata": stored_metadata(values),
                        "facts": [_fact(key, value) for key, value in values.items()],
                        "embedding": vector,
                    }
                    for id, values, vector in zip(ids[rows], metadata[rows], vectors[rows].tolist(), strict=True)
                ]
            )
        self._change(batch=batch, settled=not replaces)
        self._swept = True
        if replaces:
            self._delete_replaced(ids)
            self._change(settled=True)

    def _insert(self, rows: list[dict[str, Any]]) -> None:
        self._server.insert(rows)

    def _remove(self, ids: list[str]) -> list[str]:
        """In one request, if there are not too many for one."""
        rows = self._rows(ids)
        if missing := [id for id in ids if id not in rows]:
            return missing
        self._delete([_primary(id, row["batch"]) for id, row in rows.items()])
        return []

    def _delete_replaced(self, ids: Sequence[str]) -> None:
        newest = self._description.batch
        for start in range(0, len(ids), ROWS_AT_ONCE):
            wanted = set(ids[start : start + ROWS_AT_ONCE])
            rows = self._server.query(f"key in {[_number(id) for id in wanted]} and batch < {newest}", ["id", "batch"])
            self._delete([_primary(id, row["batch"]) for row in rows if (id := restored(row["id"])) in wanted])

    def _delete(self, primaries: list[str]) -> None:
        for start in range(0, len(primaries), MOST_ANSWERS):
            self._server.delete(f"pk in {json.dumps(primaries[start : start + MOST_ANSWERS])}")

    def flush(self, memory: str | float = MEMORY) -> None:  # noqa: ARG002 (it is the server's)
        """Let the server seal what it has, and wait until it is indexed."""
        with self._server.speaking() as client:
            client.flush(self._server.name, timeout=10 * SECONDS)
            while int(client.describe_index(self._server.name, "embedding").get("pending_index_rows", 0)):
                time.sleep(0.2)

    def compact(self, memory: str | float = MEMORY) -> None:
        with self.writing(), self._server.speaking() as client:
            self.flush(memory)
            client.compact(self._server.name, timeout=SECONDS)

    # asking

    def _nearest(self, queries: Vectors, k: int, where: Metadata) -> Found:
        found: Found = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            found += self._some_nearest(queries[start : start + QUERIES_AT_ONCE], k, where)
        return found

    def _some_nearest(self, queries: Vectors, k: int, where: Metadata) -> Found:
        facts = [_fact(key, value) for key, value in where.items()]
        conditions = [f"array_contains_all(facts, {facts})"] if facts else []
        answers = self._ask(queries, k, conditions)
        if any(row["batch"] > self._description.batch for rows in answers for row in rows):
            self.refresh()
        newest = self._description.batch
        if any(_unsettled(rows, newest) for rows in answers):  # someone is writing, or was stopped
            answers = self._ask(queries, 2 * k, [*conditions, self._counting()])
        return [[(row["score"], self._known(row)) for row in _newest(rows)][:k] for rows in answers]

    def _ask(self, queries: Vectors, k: int, conditions: list[str]) -> list[list[dict[str, Any]]]:
        k = min(k, MOST_ANSWERS)
        with self._server.speaking() as client:
            answers = client.search(
                self._server.name,
                data=queries.tolist(),
                filter=" and ".join(conditions),
                limit=k,
                output_fields=FIELDS,
                consistency_level="Strong" if self._behind else "Session",
                search_params={"metric_type": "IP", "params": {"ef": max(CANDIDATES, k)}},
                timeout=SECONDS,
            )
            self._behind = False
        return [[{**hit["entity"], "score": min(1.0, float(hit["distance"]))} for hit in hits] for hits in answers]

    def _known(self, row: dict[str, Any]) -> Record:
        return self._record(row["id"], row["metadata"], float(row["capacity"]), int(row["generation"]))

    def _rows(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(ids), ROWS_AT_ONCE):
            wanted = set(ids[start : start + ROWS_AT_ONCE])
            condition = f"key in {[_number(id) for id in wanted]} and {self._counting()}"
            for row in sorted(self._server.query(condition, FIELDS), key=lambda row: int(row["batch"])):
                if (id := restored(row["id"])) in wanted:
                    found[id] = row
        return found

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        if not self._writes:
            self.refresh()
        return {id: self._known(row) for id, row in self._rows(ids).items()}

    def holding(self, key: str, values: Iterable[Value]) -> set[Value]:
        asked, found = {as_text(value): value for value in values}, set[Value]()
        for start in range(0, len(asked), QUERIES_AT_ONCE):
            facts = [_fact(key, value) for value in list(asked.values())[start : start + QUERIES_AT_ONCE]]
            rows = self._server.query(f"array_contains_any(facts, {facts}) and {self._counting()}", FIELDS)
            held = {as_text(self._known(row).metadata[key]) for row in rows if key in self._known(row).metadata}
            found |= {asked[text] for text in held if text in asked}
        return found

    def older(self) -> list[Record]:
        condition = f"generation < {len(self.generations) - 1} and {self._counting()}"
        return [self._known(row) for page in self._server.pages(condition, FIELDS) for row in page]

    def scan(self) -> Iterator[tuple[Tensor, list[Record]]]:
        self.refresh()
        for page in self._server.pages(self._counting(), [*FIELDS, "embedding"]):
            yield torch.tensor([row["embedding"] for row in page]), [self._known(row) for row in page]

    def made_by(self) -> dict[tuple[str, float], int]:
        pages = self._server.pages(self._counting(), ["generation", "capacity"])
        counts = Counter((int(row["generation"]), float(row["capacity"])) for page in pages for row in page)
        return self._by_family((*member, count) for member, count in counts.items())

    def notes(self) -> list[str]:
        return [
            "search is that of Milvus: HNSW for what is sealed, every vector compared for what is not; "
            f"{CANDIDATES} candidates are looked at"
        ]

    def _problems(self) -> list[str]:
        found = []
        with self._server.speaking() as client:
            fields = {field["name"]: field for field in client.describe_collection(self._server.name)["fields"]}
        dimension = int(fields.get("embedding", {}).get("params", {}).get("dim", 0))
        if dimension != self.dimension:
            found.append(f"{self.place}: its vectors have {dimension} dimensions, not {self.dimension}")
        if count := self._server.count(f"generation >= {len(self.generations)} and {self._counting()}"):
            found.append(f"{self.place} holds {count:,} vectors of a family that it does not name")
        return found


def _unsettled(rows: list[dict[str, Any]], newest: int) -> bool:
    return len({row["id"] for row in rows}) < len(rows) or any(row["batch"] > newest for row in rows)


def _newest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each id once, as it was added last."""
    last: dict[str, int] = {}
    for row in rows:
        last[row["id"]] = max(row["batch"], last.get(row["id"], 0))
    return [row for row in rows if row["batch"] == last[row["id"]]]


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _primary(id: str, batch: int) -> str:
    return f"{hashlib.blake2b(_bytes_of(id), digest_size=16).hexdigest()}-{batch}"


def _number(text: str) -> int:
    """62 bits, which two texts may share."""
    return int.from_bytes(hashlib.blake2b(_bytes_of(text), digest_size=8).digest(), "little") >> 2


def _fact(key: str, value: Value) -> int:
    return _number(f"{key}\x00{as_text(value)}")
