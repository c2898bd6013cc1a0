"""Many short texts in two arrays, so that a million of them are mapped, not read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Strings:
    """Text `i` is `text[ends[i - 1]:ends[i]]` in UTF-8; paths that are no text are kept as Python keeps them."""

    text: npt.NDArray[np.uint8]
    ends: Ints

    @classmethod
    def of(cls, words: Iterable[str]) -> "Strings":
        encoded = [word.encode("utf-8", "surrogateescape") for word in words]
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls(text, np.fromiter(accumulate(map(len, encoded)), dtype=np.int64, count=len(encoded)))

    @classmethod
    def joined(cls, parts: Sequence["Strings"]) -> "Strings":
        shifts = np.cumsum([0, *(len(part.text) for part in parts[:-1])])
        ends = [part.ends + shift for part, shift in zip(parts, shifts, strict=True)]
        return cls(np.concatenate([part.text for part in parts]), np.concatenate(ends))

    def __len__(self) -> int:
        return len(self.ends)

    def at(self, index: int) -> str:
        text, ends = self._memory
        return str(text[ends[index - 1] if index else 0 : ends[index]], "utf-8", "surrogateescape")

    @cached_property
    def _memory(self) -> tuple[memoryview, memoryview]:
        """The arrays, of which Python reads single values three times as fast this way."""
        return self.text.data, self.ends.data

    def _bytes(self, index: int) -> bytes:
        text, ends = self._memory
        return bytes(text[ends[index - 1] if index else 0 : ends[index]])

    def all(self) -> list[str]:
        whole = self.text.tobytes()
        starts = [0, *self.ends[:-1].tolist()]
        return [
            whole[start:end].decode("utf-8", "surrogateescape")
            for start, end in zip(starts, self.ends.tolist(), strict=False)
        ]

    def taken(self, indices: npt.NDArray[Any]) -> "Strings":
        """Those at `indices`, in that order."""
        starts = np.concatenate([[0], self.ends[:-1]])[indices]
        lengths = self.ends[indices] - starts
        ends = np.cumsum(lengths)
        shift = np.repeat(starts - (ends - lengths), lengths)
        return Strings(self.text[shift + np.arange(len(shift))], ends)

    def place(self, word: str) -> int:
        """Where `word` is among texts in the order of their bytes; -1 if it is not there."""
        wanted, low, high = word.encode("utf-8", "surrogateescape"), 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._bytes(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._bytes(low) == wanted else -1
