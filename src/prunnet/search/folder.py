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
from prunnet.search.columns import Metadata
from prunnet.search.exact import blocks, in_order, search_blocks
from prunnet.search.guard import check_family, check_ids, check_k, check_metadata, check_vectors
from prunnet.search.manifest import NAME, Generation, Manifest, SegmentEntry, StoredFile
from prunnet.search.merging import to_merge
from prunnet.search.protocol import VectorIndex
from prunnet.search.segment import MOST_ROWS, Segment
from prunnet.search.snapshot import Snapshot
from prunnet.storage.prun.source import is_address

EXACT_ROWS = 100_000
"""Up to so many vectors all are compared: a query takes less than the embedding of its picture does."""
MOST_APPROXIMATE = 1000
"""Whoever wants more answers than these gets them by comparing all."""
MEMORY = "4GB"
"""Bound of the approximate index."""

Flags = npt.NDArray[np.bool_]


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
        """A new one, empty; `made_with` is where a network is stored that embeds for it."""
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
            where = made_with if made_with is None or is_address(made_with) else str(Path(made_with).resolve())
            generations = (Generation(family_id=family_id, made_with=where),)
            Manifest(revision=0, dimension=dimension, generations=generations).write(place)
        return cls(place)

    @property
    def manifest(self) -> Manifest:
        """What it holds, as of the last write or `refresh`."""
        return self._snapshot.manifest

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def dimension(self) -> int:  # type: ignore[override]
        return self.manifest.dimension

    @property
    def family_id(self) -> str:
        return self.manifest.current.family_id

    @property
    def made_with(self) -> str:
        """Where the network is stored that it was built with."""
        place = self.manifest.current.made_with
        if place is None:
            raise SearchError(f"{self.folder} does not know a network of its family, {self.family_id}; say --model")
        return place

    @property
    def bytes(self) -> int:
        """Of its files."""
        return sum(file.bytes for file in self.manifest.files)

    def made_by(self) -> dict[tuple[str, float], int]:
        """How many vectors each member has made, by family and capacity."""
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

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and bool(id) and id in self._snapshot.find([id])

    def records(self, ids: Sequence[str]) -> dict[str, Record]:
        snapshot = self._snapshot
        return {id: snapshot.record(row) for id, row in snapshot.find([id for id in ids if id]).items()}

    def __repr__(self) -> str:
        return f"VectorIndex({str(self.folder)!r}, {len(self):,} vectors of family {self.family_id})"

    def refresh(self) -> None:
        self._snapshot = Snapshot.read(self.folder, self._snapshot)

    # writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be the one that writes, for all calls within; another process that wants to gets a `BusyError`."""
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

    def add(
        self,
        embeddings: Embeddings,
        ids: Iterable[str],
        metadata: Sequence[Metadata] | Metadata | None = None,
        *,
        replace: bool = True,
    ) -> None:
        vectors = check_vectors(embeddings, self.dimension, self.folder).numpy()
        names = check_ids(ids, len(vectors))
        described = check_metadata(metadata, len(vectors))
        with self.writing():
            generation = check_family(embeddings.family_id, self.manifest.generations, self.folder, adding=True)
            present = self._snapshot.find(names)
            if present and not replace:
                raise SearchError(f"{self.folder} already holds {next(iter(present))!r}; replace=True replaces it")
            if not names:
                return
            parts = [slice(start, start + MOST_ROWS) for start in range(0, len(names), MOST_ROWS)]
            segments = [
                Segment.of(
                    vectors[part],
                    names[part],
                    described[part],
                    capacity=embeddings.capacity,
                    generation=generation,
                )
                for part in parts
            ]
            added = [self._stored(number, segment) for number, segment in enumerate(segments)]
            self._commit(segments=(*self.manifest.segments, *added), **self._without(present.values()))
            self._merge()

    def remove(self, ids: Iterable[str]) -> None:
        names = check_ids(ids)
        with self.writing():
            present = self._snapshot.find(names)
            if missing := [name for name in names if name not in present]:
                raise SearchError(f"{self.folder} holds no {missing[0]!r}; nothing was removed")
            if names:
                self._commit(**self._without(present.values()))

    def compact(self, memory: str | float = MEMORY) -> None:
        """Write the vectors that count into as few segments as they need, and free the room of the others."""
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
        """Which families it knows; the last is the one that vectors are to be of."""
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
        manifest = self.manifest.changed(**changes)
        manifest.write(self.folder)
        self._snapshot = Snapshot.read(self.folder, self._snapshot, [file.name for file in manifest.files])
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
        queries = check_vectors(embeddings, self.dimension, self.folder)
        snapshot = self._snapshot  # of this moment: another thread may be writing
        check_family(embeddings.family_id, snapshot.manifest.generations, self.folder, adding=False)
        scores, rows = _nearest(snapshot, queries, k, where)
        return [
            [Hit(score, row, snapshot) for score, row in zip(*pair, strict=True)]
            for pair in zip(scores.tolist(), rows.tolist(), strict=True)
        ]

    def nearest(self, queries: Tensor, k: int, where: Metadata | None = None) -> tuple[Tensor, Tensor]:
        """Scores and row numbers `[queries, k]`, or as many as there are."""
        return _nearest(self._snapshot, queries, k, where)


def _nearest(snapshot: Snapshot, queries: Tensor, k: int, where: Metadata | None) -> tuple[Tensor, Tensor]:
    allowed = snapshot.allowed(where)
    count = len(snapshot) if allowed is None else int(allowed.sum())
    k = min(k, count)
    if snapshot.approximate is None or count <= EXACT_ROWS or k > MOST_APPROXIMATE:
        return search_blocks(queries, blocks(snapshot.segments, allowed), k)
    scores, rows = map(torch.from_numpy, snapshot.approximate.search(queries.numpy(), k, allowed))
    start = snapshot.approximate.entry.rows
    if start < snapshot.manifest.rows:
        newer = search_blocks(queries, blocks(snapshot.segments, allowed, start), k)
        scores, rows = in_order(torch.cat([scores, newer[0]], 1), torch.cat([rows, newer[1]], 1))
        scores, rows = scores[:, :k], rows[:, :k]
    if bool((short := (rows < 0).any(1)).any()):  # the lists looked into held fewer than are wanted
        scores[short], rows[short] = search_blocks(queries[short], blocks(snapshot.segments, allowed), k)
    return scores, rows
