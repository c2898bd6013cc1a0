"""An immutable part of a gallery: vectors with their ids, makers and metadata in one file, mapped into memory."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from prunnet._checked import save_tensors
from prunnet._files import write_atomically
from prunnet.errors import DamagedError, first_line
from prunnet.search.columns import Column, Metadata, Value, columns_of, join_columns
from prunnet.search.manifest import StoredFile
from prunnet.search.strings import Strings

MOST_ROWS = 2**18
"""Of a segment, so that merging rewrites little; 256 MB at 256 dimensions."""

_META = "metadata"


@dataclass(frozen=True, eq=False)
class Segment:
    """Rows as they were added. `keys` are short digests of the ids in rising order, `places` their rows."""

    vectors: npt.NDArray[np.float32]
    capacities: npt.NDArray[np.float64]
    generations: npt.NDArray[np.int64]
    ids: Strings
    keys: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(self.vectors)

    @classmethod
    def of(
        cls,
        vectors: npt.NDArray[np.float32],
        ids: Sequence[str],
        metadata: Sequence[Metadata],
        *,
        capacity: float,
        generation: int,
    ) -> "Segment":
        """What is to be added."""
        rows = len(vectors)
        return cls._sorted(
            np.ascontiguousarray(vectors, dtype=np.float32),
            np.full(rows, capacity),
            np.full(rows, generation),
            Strings.of(ids),
            keys_of(ids),
            columns_of(metadata),
        )

    @classmethod
    def joined(cls, parts: Sequence["Segment"], kept: Sequence[npt.NDArray[Any] | None]) -> "Segment":
        """Several as one, of each the rows in `kept` (None: all), in their order."""
        taken = [part if rows is None else part._taken(rows) for part, rows in zip(parts, kept, strict=True)]
        return cls._sorted(
            np.concatenate([part.vectors for part in taken]),
            np.concatenate([part.capacities for part in taken]),
            np.concatenate([part.generations for part in taken]),
            Strings.joined([part.ids for part in taken]),
            np.concatenate([part._keys_by_row() for part in taken]),
            join_columns([(part.columns, len(part)) for part in taken]),
        )

    @classmethod
    def _sorted(cls, vectors: Any, capacities: Any, generations: Any, ids: Strings, keys: Any, held: Any) -> "Segment":
        places = np.argsort(keys, kind="stable")
        return cls(vectors, capacities, generations, ids, keys[places], places, held)

    def _keys_by_row(self) -> npt.NDArray[np.int64]:
        keys = np.empty_like(self.keys)
        keys[self.places] = self.keys
        return keys

    def _taken(self, rows: npt.NDArray[Any]) -> "Segment":
        return Segment._sorted(
            self.vectors[rows],
            self.capacities[rows],
            self.generations[rows],
            self.ids.taken(rows),
            self._keys_by_row()[rows],
            {key: taken for key, column in self.columns.items() if len((taken := column.taken(rows)).values)},
        )

    def find(self, ids: Sequence[str], keys: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Pairs (place in `ids`, row) of every row that has one of `ids`; `keys` are theirs."""
        first, last = np.searchsorted(self.keys, keys, "left"), np.searchsorted(self.keys, keys, "right")
        for asked in np.flatnonzero(first < last).tolist():
            for place in range(int(first[asked]), int(last[asked])):
                row = int(self.places[place])
                if self.ids.at(row) == ids[asked]:
                    yield asked, row

    def metadata(self, row: int) -> dict[str, Value]:
        found = {key: column.at(row) for key, column in self.columns.items()}
        return {key: value for key, value in found.items() if value is not None}

    def write(self, file: Path) -> StoredFile:
        """To `file`, whole or not at all."""
        tensors: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN} | _strings("ids", self.ids)
        for key, column in self.columns.items():
            tensors |= {f"{_META}.{key}.codes": column.codes} | _strings(f"{_META}.{key}", column.values)
        with write_atomically(file) as temporary:
            save_tensors({name: _tensor(array) for name, array in tensors.items()}, temporary)
            return StoredFile.of(temporary, file.name)

    @classmethod
    def read(cls, file: Path) -> "Segment":
        """Map `file`, whose bytes are known to be what was written."""
        try:
            arrays = _mapped(file)
            keys = {name.removeprefix(f"{_META}.").removesuffix(".codes") for name in arrays if name.endswith(".codes")}
            held = {
                key: Column(arrays[f"{_META}.{key}.codes"], _read_strings(arrays, f"{_META}.{key}"))
                for key in sorted(keys)
            }
            return cls(**{name: arrays[name] for name in _PLAIN}, ids=_read_strings(arrays, "ids"), columns=held)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedError(f"{file} is no segment of a gallery ({first_line(error)})") from None


_PLAIN = ("vectors", "capacities", "generations", "keys", "places")
_TYPES = {"U8": np.uint8, "I32": np.int32, "I64": np.int64, "F32": np.float32, "F64": np.float64}


def _mapped(file: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a safetensors file. The library would touch each of them, and so bring pages into memory."""
    with file.open("rb") as content:
        start = 8 + int.from_bytes(content.read(8), "little")
        header = json.loads(content.read(start - 8))
        whole = mmap(content.fileno(), 0, access=ACCESS_COPY)
    del header["__metadata__"]
    return {
        name: np.ndarray(told["shape"], _TYPES[told["dtype"]], whole, start + told["data_offsets"][0])
        for name, told in header.items()
    }


def keys_of(ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """Eight bytes of each, by which it is found; two ids may share them."""
    digests = b"".join(hashlib.blake2b(id.encode("utf-8", "surrogateescape"), digest_size=8).digest() for id in ids)
    return np.frombuffer(digests, dtype=np.int64)


def _strings(name: str, strings: Strings) -> dict[str, npt.NDArray[Any]]:
    return {f"{name}.text": strings.text, f"{name}.ends": strings.ends}


def _read_strings(arrays: dict[str, Any], name: str) -> Strings:
    return Strings(arrays[f"{name}.text"], arrays[f"{name}.ends"])


def _tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(array if array.flags.writeable else array.copy())
