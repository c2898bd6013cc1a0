"""A gallery in a folder: segments that never change, and a manifest that is replaced in one rename.

One process writes at a time; readers keep what they have opened until they `refresh`.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from prunnet._checked import save_tensors
from prunnet._files import locked, sweep, write_atomically
from prunnet.costs.quantities import parse_quantity
from prunnet.errors import SearchError
from prunnet.network import Embeddings
from prunnet.search import approximate, engine
from prunnet.search.answers import Answers, Hit, Record
from prunnet.search.checking import problems
from prunnet.search.columns import Metadata, Value
from prunnet.search.exact import blocks, first_of, search_segments
from prunnet.search.guard import check_family, check_k, check_vectors
from prunnet.search.manifest import NAME, Generation, Manifest, SegmentEntry, StoredFile
from prunnet.search.merging import to_merge
from prunnet.search.protocol import MEMORY, VectorIndex
from prunnet.search.segment import MOST_ROWS, Segment
from prunnet.search.snapshot import Snapshot
from prunnet.search.verified import remember, stamps

EXACT_ROWS = 100_000
"""Up to so many vectors all are compared: a query takes less than the embedding of its picture does."""
MOST_APPROXIMATE = 1000
"""Whoever wants more answers than these gets them by comparing all."""


class FolderIndex(VectorIndex):
    """The index in a folder that exists; `VectorIndex.create` makes one."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._snapshot = Snapshot.read(self.folder)
        self._writes = 0

    @classmethod
    def make(
        cls, folder: str | os.PathLike[str], family_id: str, dimension: int, made_with: str | None = None
    ) -> "FolderIndex":
        place = Path(folder)
        with locked(place):
            if (place / NAME).exists():
                raise SearchError(
                    f"{place} already holds a gallery of family {cls(place).family_id}; choose another folder"
                )
            if place.exists() and (not place.is_dir() or any(place.glob("[!.]*"))):
                raise SearchError(f"{place} exists and is no gallery; choose another folder")
            place.mkdir(exist_ok=True)
            sweep(place)
            generations = (Generation.first(family_id, made_with),)
            Manifest(revision=0, dimension=dimension, generations=generations).write(place)
        return cls(place)

    @classmethod
    def exists(cls, folder: str | os.PathLike[str]) -> bool:
        return (Path(folder) / NAME).exists()

    @classmethod
    def check(cls, folder: str | os.PathLike[str]) -> tuple[list[str], int]:
        return problems(Path(folder))

    @property
    def place(self) -> str:
        return str(self.folder)

    @property
    def manifest(self) -> Manifest:
        """What it holds, as of the last write or `refresh`."""
        return self._snapshot.manifest

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def dimension(self) -> int:
        return self.manifest.dimension

    @property
    def generations(self) -> tuple[Generation, ...]:
        return self.manifest.generations

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.manifest.files)

    def made_by(self) -> dict[tuple[str, float], int]:
        snapshot, found = self._snapshot, Counter[tuple[str, float]]()
        for start, segment in zip(snapshot.starts.tolist(), snapshot.segments, strict=False):
            kept = ~snapshot.removed[start : start + len(segment)]
            pairs = np.stack([segment.generations[kept].astype(np.float64), segment.capacities[kept]])
            values, counts = np.unique(pairs, axis=1, return_counts=True)
            for generation, capacity, count in zip(*values, counts, strict=True):
                found[self.manifest.generations[int(generation)].family_id, float(capacity)] += int(count)
        return dict(sorted(found.items(), reverse=True))

    def __len__(self) -> int:
        return len(self._snapshot)

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        snapshot = self._snapshot
        return {id: snapshot.record(row) for id, row in snapshot.find([id for id in ids if id]).items()}

    def holding(self, key: str, values: Iterable[Value]) -> set[Value]:
        return {value for value in values if self._snapshot.holds(key, value)}

    def older(self) -> list[Record]:
        numbers = range(len(self.generations) - 1)
        return [self._snapshot.record(int(row)) for n in numbers for row in self._snapshot.rows_of_generation(n)]

    def scan(self) -> Iterator[tuple[Tensor, list[Record]]]:
        snapshot = self._snapshot
        for vectors, rows in blocks(snapshot.segments, snapshot.allowed(None)):
            yield vectors, [snapshot.record(row) for row in rows.tolist()]

    def notes(self) -> list[str]:
        lines = []
        if removed := self.manifest.removed_rows:
            lines.append(f"{removed:,} vectors were removed or replaced; prunnet index compact frees their room")
        if (found := self.manifest.approximate) is None:
            return [*lines, "search is exact: every vector is compared"]
        return [
            *lines,
            f"search is approximate: {found.codes} codes in {found.lists:,} lists, {found.probes} of them looked into; "
            f"recall@10 {found.recall:.3f} on {found.sample} queries made of its vectors",
        ]

    def refresh(self) -> None:
        self._snapshot = Snapshot.read(self.folder, self._snapshot)

    # writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        if self._writes:
            yield
            return
        with locked(self.folder):
            sweep(self.folder)
            self.refresh()
            self._remove_unnamed()
            self._writes += 1
            try:
                yield
            finally:
                self._writes -= 1

    def _add(
        self, vectors: engine.Vectors, ids: list[str], metadata: list[Metadata], capacity: float, generation: int
    ) -> None:
        parts = [slice(start, start + MOST_ROWS) for start in range(0, len(ids), MOST_ROWS)]
        segments = [
            Segment.of(vectors[part], ids[part], metadata[part], capacity=capacity, generation=generation)
            for part in parts
        ]
        added = [self._stored(number, segment) for number, segment in enumerate(segments)]
        replaced = self._snapshot.find(ids).values()
        self._commit(segments=(*self.manifest.segments, *added), **self._without(replaced))
        self._merge()

    def _remove(self, ids: list[str]) -> list[str]:
        present = self._snapshot.find(ids)
        if len(present) == len(ids):
            self._commit(**self._without(present.values()))
        return [id for id in ids if id not in present]

    def compact(self, memory: str | float = MEMORY) -> None:
        with self.writing():
            snapshot = self._snapshot
            planned: list[tuple[Segment, npt.NDArray[Any]]] = []
            entries: list[SegmentEntry] = []
            for start, segment in zip(snapshot.starts, snapshot.segments, strict=False):
                rows = np.flatnonzero(snapshot.live[start : start + len(segment)])
                while len(rows):
                    room = MOST_ROWS - sum(len(part) for _, part in planned)
                    planned.append((segment, rows[:room]))
                    rows = rows[room:]
                    if sum(len(part) for _, part in planned) == MOST_ROWS:
                        entries.append(self._joined(len(entries), planned))
                        planned = []
            if planned:
                entries.append(self._joined(len(entries), planned))
            self._commit(segments=tuple(entries), removed=None, removed_rows=0, approximate=None)
            self.flush(memory)

    def flush(self, memory: str | float = MEMORY) -> None:
        with self.writing():
            snapshot, before = self._snapshot, self.manifest.approximate
            if not engine.installed() or len(self) <= EXACT_ROWS:
                return
            covered = 0 if before is None else before.rows
            if before is not None and self.manifest.rows - covered <= max(EXACT_ROWS, covered // 10) // 2:
                return
            file = self.folder / f"approximate-{self.manifest.revision + 1:08d}.faiss"
            old = None if before is None else (self.folder / before.file.name, before)
            entry = approximate.build(snapshot.segments, snapshot.live, parse_quantity(memory, "B"), file, old)
            self._commit(approximate=entry)

    def set_generations(self, generations: Sequence[Generation]) -> None:
        with self.writing():
            self._commit(generations=tuple(generations))

    def _stored(self, number: int, segment: Segment) -> SegmentEntry:
        file = self.folder / f"segment-{self.manifest.revision + 1:08d}-{number}.safetensors"
        return SegmentEntry(file=segment.write(file), rows=len(segment))

    def _joined(self, number: int, parts: Sequence[tuple[Segment, npt.NDArray[Any]]]) -> SegmentEntry:
        return self._stored(number, Segment.joined([segment for segment, _ in parts], [rows for _, rows in parts]))

    def _merge(self) -> None:
        """Keep the number of segments small; rows keep their numbers, since neighbours are merged."""
        count = to_merge([entry.rows for entry in self.manifest.segments])
        if count:
            merged = Segment.joined(self._snapshot.segments[-count:], [None] * count)
            self._commit(segments=(*self.manifest.segments[:-count], self._stored(0, merged)))

    def _without(self, rows: Iterable[int]) -> dict[str, Any]:
        """What changes in the manifest when `rows` no longer count."""
        gone = list(rows)
        if not gone:
            return {}
        flags = self._snapshot.removed.copy()
        flags[gone] = True
        file = self.folder / f"removed-{self.manifest.revision + 1:08d}.safetensors"
        with write_atomically(file) as temporary:
            save_tensors({"bits": torch.from_numpy(np.packbits(flags, bitorder="little"))}, temporary)
            stored = StoredFile.of(temporary, file.name)
        return {"removed": stored, "removed_rows": int(flags.sum())}

    def _commit(self, **changes: Any) -> None:
        before, manifest = {*self.manifest.files}, self.manifest.changed(**changes)
        manifest.write(self.folder)
        files = manifest.files
        remember(self.folder, stamps(self.folder, (file for file in files if file not in before)), files)
        self._snapshot = Snapshot.read(self.folder, self._snapshot, [file.name for file in files])
        self._remove_unnamed()

    def _remove_unnamed(self) -> None:
        named = {file.name for file in self.manifest.files}
        for kind in ("segment", "removed", "approximate"):
            for file in self.folder.glob(f"{kind}-*"):
                if file.name not in named:
                    with suppress(FileNotFoundError):
                        file.unlink()

    # asking

    def search(self, embeddings: Embeddings, k: int = 10, where: Metadata | None = None) -> Answers:
        check_k(k)
        snapshot = self._snapshot  # of this moment: another thread may be writing
        queries = check_vectors(embeddings, snapshot.manifest.dimension, self.folder)
        check_family(embeddings.family_id, snapshot.manifest.generations, self.folder, adding=False)
        scores, rows = _nearest(snapshot, queries, k, where)
        return [
            [Hit(score, row, snapshot) for score, row in zip(*pair, strict=True)]
            for pair in zip(scores.tolist(), rows.tolist(), strict=True)
        ]

    def nearest(self, queries: Tensor, k: int, where: Metadata | None = None) -> tuple[Tensor, Tensor]:
        """Scores and row numbers `[queries, k]`, or as many as there are."""
        scores, rows = _nearest(self._snapshot, queries, k, where)
        return torch.from_numpy(scores), torch.from_numpy(rows)


def _nearest(snapshot: Snapshot, queries: Tensor, k: int, where: Metadata | None) -> engine.Found:
    segments, index, allowed = snapshot.segments, snapshot.approximate, snapshot.allowed(where)
    count = int(allowed.sum()) if where and allowed is not None else len(snapshot)
    k = min(k, count)
    if index is None or count <= EXACT_ROWS or k > MOST_APPROXIMATE:
        return search_segments(queries, segments, k, allowed)
    scores, rows = index.search(queries.numpy(), k, allowed)
    if index.entry.rows < snapshot.rows:
        newer = search_segments(queries, segments, k, allowed, start=index.entry.rows)
        scores, rows = first_of([(scores, rows), newer], k)
    if (short := rows[:, -1] < 0).any():  # the lists looked into held fewer than are wanted
        scores[short], rows[short] = search_segments(queries[torch.from_numpy(short)], segments, k, allowed)
    return scores, rows
