"""A gallery in PostgreSQL, by pgvector: one table, whose name the address says (`?table=`, otherwise `gallery`).

    id          text primary key
    embedding   halfvec(dimension)    of length 1, in half precision; vector where pgvector is older than 0.7
    capacity    double precision      of the member that made it
    generation  smallint              its place in the generations that `prunnet_galleries` lists for the table
    metadata    jsonb

A call that writes is one transaction. Above a size `flush` makes an HNSW index.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prunnet.costs.quantities import parse_quantity
from prunnet.errors import BusyError, SearchError
from prunnet.search.answers import Record
from prunnet.search.approximate import FIRST, WANTED
from prunnet.search.columns import Metadata, Value
from prunnet.search.engine import Vectors
from prunnet.search.manifest import Generation
from prunnet.search.protocol import MEMORY, Place
from prunnet.search.stores.address import Address
from prunnet.search.stores.database import Database
from prunnet.search.stores.server import Description, Found, Measured, ServerIndex, recall_of
from prunnet.search.stores.texts import restored, stored, stored_metadata

EXACT_ROWS = 10_000
"""Up to so many vectors all are compared."""
MOST_CANDIDATES = 1000  # that pgvector looks at
MOST_DIMENSIONS = {"halfvec": 4000, "vector": 2000}  # of an HNSW index
DIGITS = {"halfvec": "%.5g", "vector": "%.9g"}  # that tell two numbers apart
WIDTH = {"halfvec": 2, "vector": 4}  # bytes of a number
ROWS_AT_ONCE = 1000
SAMPLE = 64  # vectors on which the recall is measured
LOCK = "hashtext('prunnet'), to_regclass(%s)::oid::int"
COUNT = "SELECT count(*) FROM {table}"
COLUMNS = "id, metadata, capacity, generation"

CREATE = """
CREATE TABLE {{table}} (
    id text PRIMARY KEY,
    embedding {kind}({dimension}) NOT NULL,
    capacity double precision NOT NULL,
    generation smallint NOT NULL,
    metadata jsonb NOT NULL
)"""
ADD = """
INSERT INTO {{table}}
SELECT id, embedding::{kind}, %s, %s, metadata::jsonb
FROM unnest(%s::text[], %s::text[], %s::text[]) AS new (id, embedding, metadata) ORDER BY id
ON CONFLICT (id) DO UPDATE SET embedding = EXCLUDED.embedding, capacity = EXCLUDED.capacity,
    generation = EXCLUDED.generation, metadata = EXCLUDED.metadata"""
NEAREST = """
SELECT asked.place, found.*
FROM unnest(%s::text[]::{kind}[]) WITH ORDINALITY AS asked (vector, place)
CROSS JOIN LATERAL (
    SELECT embedding <#> asked.vector AS distance, id, metadata, capacity, generation
    FROM {{table}} {where} ORDER BY (embedding <#> asked.vector) {exactly} LIMIT {k}
) AS found
ORDER BY asked.place, found.distance"""


class PostgresIndex(ServerIndex):
    """The index in a table of a database; `VectorIndex.create` makes one."""

    longest_id = 2600  # more does not fit into a B-tree

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._table, self._database = _database(self.address)
        self.refresh()

    @classmethod
    def make(cls, place: Place, family_id: str, dimension: int, made_with: str | None = None) -> "PostgresIndex":
        table, database = _database(Address.parse(str(place)))
        description = Description(dimension=dimension, generations=(Generation.first(family_id, made_with),))
        with database.transaction():
            database.rows("SELECT pg_advisory_xact_lock(hashtext('prunnet'))")  # of two that make it one does
            if database.value("SELECT to_regtype('vector')::oid") is None:
                database.rows("CREATE EXTENSION vector")
            if (known := _description(database, table)) is not None:
                raise SearchError(
                    f"{database.place} already holds a gallery of family {known.generations[-1].family_id}; choose "
                    "another table, with ?table= in the address"
                )
            if database.value("SELECT to_regclass(%s)::oid", [table]) is not None:
                raise SearchError(f"{database.place}: table {table} exists and is no gallery; choose another, ?table=")
            kind = "vector" if database.value("SELECT to_regtype('halfvec')::oid") is None else "halfvec"
            database.rows(CREATE.format(kind=kind, dimension=int(dimension)))
            database.rows("CREATE INDEX {by_metadata} ON {table} USING gin (metadata jsonb_path_ops)")
            database.rows("CREATE TABLE IF NOT EXISTS {galleries} (name text PRIMARY KEY, description json NOT NULL)")
            database.rows("INSERT INTO {galleries} VALUES (%s, %s::json)", [table, description.text()])
        return cls(place)

    @classmethod
    def exists(cls, place: Place) -> bool:
        table, database = _database(Address.parse(str(place)))
        return _description(database, table) is not None

    def refresh(self) -> None:
        super().refresh()
        self._kind = self._column().partition("(")[0]

    def _stored(self) -> Description | None:
        return _description(self._database, self._table)

    def _column(self) -> str:
        """The type of its vectors."""
        statement = (
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attname = 'embedding'"
        )
        return str(self._database.value(statement, [self._table]))

    @property
    def bytes(self) -> int:
        return int(self._database.value("SELECT pg_total_relation_size(to_regclass(%s))", [self._table]))

    def __len__(self) -> int:
        return int(self._database.value(COUNT))

    # writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        with self._database.session():
            if not self._writes:
                self._lock(f"pg_try_advisory_lock({LOCK})")
                self.refresh()
            self._writes += 1
            try:
                yield
            finally:
                self._writes -= 1
                if not self._writes:
                    self._database.let_go(f"pg_advisory_unlock({LOCK})", [self._table])

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Several processes may; those that are `writing` are alone."""
        with self._database.transaction():
            self._lock(f"pg_try_advisory_xact_lock_shared({LOCK})")
            self.refresh()
            yield

    def _lock(self, function: str) -> None:
        if not self._database.value(f"SELECT {function}", [self._table]):
            raise BusyError(f"{self.place} is being written by another process; wait for it")

    def _add(
        self, vectors: Vectors, ids: list[str], metadata: list[Metadata], capacity: float, generation: int
    ) -> None:
        for start in range(0, len(ids), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            texts = list(map(_json, metadata[rows]))
            columns = [list(map(stored, ids[rows])), self._as_texts(vectors[rows]), texts]
            self._database.rows(ADD.format(kind=self._kind), [capacity, generation, *columns])

    def _remove(self, ids: list[str]) -> list[str]:
        gone = self._database.rows("DELETE FROM {table} WHERE id = ANY(%s) RETURNING id", [list(map(stored, ids))])
        names = {restored(id) for (id,) in gone}
        return [id for id in ids if id not in names]

    def _describe(self, description: Description) -> None:
        statement = "UPDATE {galleries} SET description = %s::json WHERE name = %s"
        self._database.rows(statement, [description.text(), self._table])
        self._description = description

    def flush(self, memory: str | float = MEMORY) -> None:
        with self.writing(), self._database.transaction():
            count = len(self)
            if self._description.measured or count <= EXACT_ROWS or self.dimension > MOST_DIMENSIONS[self._kind]:
                return
            graph = 1.5 * count * (WIDTH[self._kind] * self.dimension + 400)
            bound = int(min(parse_quantity(memory, "B"), max(graph, 64e6)) / 1024)
            self._database.rows("SELECT set_config('maintenance_work_mem', %s, true)", [f"{bound}kB"])
            self._database.rows(f"CREATE INDEX {{by_vector}} ON {{table}} USING hnsw (embedding {self._kind}_ip_ops)")
            self._measure()

    def compact(self, memory: str | float = MEMORY) -> None:
        with self.writing():
            if self._description.measured is not None:
                self._database.rows("DROP INDEX IF EXISTS {half_made}")
                self._database.rows("REINDEX INDEX CONCURRENTLY {by_vector}")
            self._database.rows("VACUUM (ANALYZE) {table}")
            if self._description.measured is not None:
                self._measure()
            self.flush(memory)

    def _measure(self) -> None:
        """How many candidates are enough, on vectors of its own."""
        sample = self._database.rows(f"SELECT embedding::text FROM {{table}} ORDER BY md5(id) LIMIT {SAMPLE}")
        queries = np.stack([_vector(text) for (text,) in sample])
        true = self._ask(queries, FIRST + 1, {}, exactly=True)
        candidates, recall = 20, 0.0
        while recall < WANTED and candidates < MOST_CANDIDATES:
            candidates *= 2
            recall = recall_of(self._ask(queries, FIRST + 1, {}, candidates=candidates), true)
        measured = Measured(candidates=candidates, recall=recall, sample=len(queries))
        self._describe(self._description.model_copy(update={"measured": measured}))

    # asking

    def _nearest(self, queries: Vectors, k: int, where: Metadata) -> Found:
        measured = self._description.measured
        if measured is None or k > MOST_CANDIDATES or (where and self._fitting(where) <= EXACT_ROWS):
            return self._ask(queries, k, where, exactly=True)
        found = self._ask(queries, k, where, candidates=max(measured.candidates, k))
        short = [place for place, hits in enumerate(found) if len(hits) < k]  # removed or filtered out on the way
        if short:
            for place, hits in zip(short, self._ask(queries[short], k, where, exactly=True), strict=True):
                found[place] = hits
        return found

    def _ask(self, queries: Vectors, k: int, where: Metadata, *, exactly: bool = False, candidates: int = 0) -> Found:
        with self._database.session():
            if not exactly:
                self._database.set("hnsw.ef_search", candidates)
            fitting = "WHERE metadata @> %s::jsonb" if where else ""
            statement = NEAREST.format(kind=self._kind, where=fitting, exactly="+ 0" if exactly else "", k=int(k))
            arguments: list[Any] = [self._as_texts(queries)]
            rows = self._database.rows(statement, [*arguments, *([_json(where)] if where else [])])
        found: Found = [[] for _ in queries]
        for place, distance, *row in rows:
            found[place - 1].append((min(1.0, -distance), self._record(*row)))
        return found

    def _fitting(self, where: Metadata) -> int:
        return int(self._database.value(f"{COUNT} WHERE metadata @> %s::jsonb", [_json(where)]))

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        found: dict[str, Record] = {}
        for start in range(0, len(ids), 10 * ROWS_AT_ONCE):
            wanted = list(map(stored, ids[start : start + 10 * ROWS_AT_ONCE]))
            rows = self._database.rows(f"SELECT {COLUMNS} FROM {{table}} WHERE id = ANY(%s)", [wanted])
            found |= {(record := self._record(*row)).id: record for row in rows}
        return found

    def holding(self, key: str, values: Iterable[Value]) -> set[Value]:
        asked = list(values)
        statement = (
            "SELECT asked.place FROM unnest(%s::text[]) WITH ORDINALITY AS asked (value, place) "
            "WHERE EXISTS (SELECT FROM {table} WHERE metadata @> asked.value::jsonb)"
        )
        rows = self._database.rows(statement, [[_json({key: value}) for value in asked]])
        return {asked[place - 1] for (place,) in rows}

    def older(self) -> list[Record]:
        newest = len(self.generations) - 1
        rows = self._database.rows(f"SELECT {COLUMNS} FROM {{table}} WHERE generation < %s ORDER BY id", [newest])
        return [self._record(*row) for row in rows]

    def scan(self) -> Iterator[tuple[Tensor, list[Record]]]:
        for page in self._database.pages(f"SELECT embedding::text, {COLUMNS} FROM {{table}}", 10 * ROWS_AT_ONCE):
            vectors = np.stack([_vector(text) for text, *_ in page])
            yield torch.from_numpy(vectors), [self._record(*row) for _, *row in page]

    def made_by(self) -> dict[tuple[str, float], int]:
        return self._by_family(
            self._database.rows("SELECT generation, capacity, count(*) FROM {table} GROUP BY generation, capacity")
        )

    def notes(self) -> list[str]:
        measured = self._description.measured
        if measured is None:
            return ["search is exact: every vector is compared, in half precision"]
        return [
            f"search is approximate: HNSW of pgvector, {measured.candidates} candidates looked at; recall@10 "
            f"{measured.recall:.3f} on {measured.sample} of its vectors"
        ]

    def _problems(self) -> list[str]:
        found = []
        if (column := self._column()) != f"{self._kind}({self.dimension})":
            found.append(f"{self.place}: column embedding is {column}, not {self._kind}({self.dimension})")
        newest = len(self.generations) - 1
        if count := self._database.value(f"{COUNT} WHERE generation NOT BETWEEN 0 AND %s", [newest]):
            found.append(f"{self.place} holds {count:,} vectors of a family that it does not name")
        if count := self._database.value(f"{COUNT} WHERE NOT (embedding <#> embedding) BETWEEN -1.06 AND -0.94"):
            found.append(f"{self.place} holds {count:,} vectors whose length is not 1")
        return found

    def _as_texts(self, vectors: Vectors) -> list[str]:
        form = "[" + ",".join([DIGITS[self._kind]] * vectors.shape[1]) + "]"
        return [form % tuple(row) for row in vectors.tolist()]


def _database(address: Address) -> tuple[str, Database]:
    """The name of the table, and the database it is in."""
    table, server = address.take("table", "gallery")
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", table):
        raise SearchError(f"a table is named by up to 41 small letters, digits and _; found {table!r}")
    names = {"table": table, "galleries": "prunnet_galleries", "by_metadata": f"{table}_metadata"}
    names |= {"by_vector": f"{table}_embedding", "half_made": f"{table}_embedding_ccnew"}
    return table, Database(server, address.shown, names)


def _description(database: Database, table: str) -> Description | None:
    if database.value("SELECT to_regclass('prunnet_galleries')::oid") is None:
        return None
    content = database.value("SELECT description FROM {galleries} WHERE name = %s", [table])
    return None if content is None else Description.read(content, database.place)


def _json(values: Metadata) -> str:
    return json.dumps(stored_metadata(values))


def _vector(text: str) -> Vectors:
    return np.fromstring(text[1:-1], dtype=np.float32, sep=",")
