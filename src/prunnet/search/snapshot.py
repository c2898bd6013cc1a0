"""A gallery as one manifest describes it: every file known to be what was written, then mapped. It stays what it is
while others write.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np

from prunnet._checked import load_tensors
from prunnet.errors import DamagedError
from prunnet.search import engine
from prunnet.search.answers import Record
from prunnet.search.approximate import Approximate
from prunnet.search.columns import ABSENT, Metadata, Value, as_text
from prunnet.search.engine import Flags, Rows
from prunnet.search.manifest import Manifest, read_manifest
from prunnet.search.segment import Segment, keys_of
from prunnet.search.verified import compare, unverified

REMEDY = "put back a copy of the file, or build the gallery again"


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of a gallery between two writes."""

    manifest: Manifest
    segments: tuple[Segment, ...]
    removed: Flags
    approximate: Approximate | None

    @classmethod
    def read(cls, folder: Path, before: "Snapshot | None" = None, trusted: Collection[str] = ()) -> "Snapshot":
        """What is in `folder`. What is known from `before` is not read again, and what is `trusted` not checked."""
        while True:
            manifest = read_manifest(folder)
            try:
                return cls._of(folder, manifest, before, trusted)
            except (DamagedError, FileNotFoundError):
                if read_manifest(folder).revision == manifest.revision:
                    raise
                # a writer has merged segments meanwhile, and removed what it merged

    @classmethod
    def _of(cls, folder: Path, manifest: Manifest, before: "Snapshot | None", trusted: Collection[str]) -> "Snapshot":
        known = {} if before is None else dict(zip(before.manifest.segments, before.segments, strict=True))
        same_index = before is not None and before.manifest.approximate == manifest.approximate
        seen = {*trusted, *(entry.file.name for entry in known)}
        if same_index and manifest.approximate is not None:
            seen.add(manifest.approximate.file.name)
        files = unverified(folder, (file for file in manifest.files if file.name not in seen))
        if files and (found := compare(folder, files, manifest.files)):
            raise DamagedError(f"{found[0]}; {REMEDY}")
        segments = []
        for entry in manifest.segments:
            segment = known.get(entry) or Segment.read(folder / entry.file.name)
            if segment.vectors.shape != (entry.rows, manifest.dimension):
                raise DamagedError(f"{folder / entry.file.name} is not the segment that the manifest names; {REMEDY}")
            segments.append(segment)
        index = before.approximate if same_index and before is not None else _approximate(folder, manifest)
        return cls(manifest, tuple(segments), _removed(folder, manifest), index)

    def __len__(self) -> int:
        return self.rows - self.manifest.removed_rows

    @cached_property
    def rows(self) -> int:
        """With those that do not count any more."""
        return self.manifest.rows

    @cached_property
    def starts(self) -> Rows:
        """The row with which each segment begins."""
        return np.array([0, *accumulate(len(segment) for segment in self.segments)], dtype=np.int64)

    @cached_property
    def live(self) -> Flags:
        return ~self.removed

    def allowed(self, where: Metadata | None) -> Flags | None:
        """Which rows may answer; None if all may."""
        if not where:
            return self.live if self.manifest.removed_rows else None
        flags = self.live.copy()
        for key, value in where.items():
            for start, segment in zip(self.starts, self.segments, strict=False):
                here = flags[start : start + len(segment)]
                column = segment.columns.get(key)
                here &= column.equal_to(value) if column is not None else np.False_
        return flags

    def holds(self, key: str, value: Value) -> bool:
        """Whether a vector that counts has this in its metadata."""
        for start, segment in zip(self.starts.tolist(), self.segments, strict=False):
            column = segment.columns.get(key)
            if column is None or column.values.place(as_text(value)) == ABSENT:
                continue
            if (column.equal_to(value) & ~self.removed[start : start + len(segment)]).any():
                return True
        return False

    def find(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those `ids` that are there."""
        keys, found = keys_of(ids), {}
        for start, segment in zip(self.starts.tolist(), self.segments, strict=False):
            for asked, place in segment.find(ids, keys):
                if not self.removed[start + place]:
                    found[ids[asked]] = start + place
        return found

    def id(self, row: int) -> str:
        segment, place = self._place(row)
        return segment.ids.at(place)

    def _place(self, row: int) -> tuple[Segment, int]:
        number = bisect_right(self._ends, row)
        return self.segments[number], row - (self._ends[number - 1] if number else 0)

    @cached_property
    def _ends(self) -> list[int]:
        ends: list[int] = self.starts[1:].tolist()
        return ends

    def record(self, row: int) -> Record:
        """What is known about the vector of a row."""
        segment, place = self._place(row)
        family_id = self.manifest.generations[int(segment.generations[place])].family_id
        return Record(segment.ids.at(place), segment.metadata(place), float(segment.capacities[place]), family_id)

    def rows_of_generation(self, generation: int) -> Rows:
        """Those that are left of it."""
        made = [segment.generations == generation for segment in self.segments]
        return np.flatnonzero(np.concatenate(made) & self.live) if made else np.empty(0, dtype=np.int64)


def _removed(folder: Path, manifest: Manifest) -> Flags:
    flags = np.zeros(manifest.rows, dtype=np.bool_)
    if manifest.removed is not None:
        file = folder / manifest.removed.name
        bits = load_tensors(file)[0]["bits"].numpy()
        told = np.unpackbits(bits, bitorder="little")[: manifest.rows].astype(np.bool_)
        flags[: len(told)] = told
    if int(flags.sum()) != manifest.removed_rows:
        raise DamagedError(f"{folder}: its manifest counts {manifest.removed_rows} removed rows, not {flags.sum()}")
    return flags


def _approximate(folder: Path, manifest: Manifest) -> Approximate | None:
    if manifest.approximate is None or not engine.installed():
        return None
    return Approximate(folder / manifest.approximate.file.name, manifest.approximate)
