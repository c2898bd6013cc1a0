"""Metadata of rows by key: each value is stored once, and a row holds its number, so that a filter reads numbers only.

A value is a text, a number or a truth value. It is kept as JSON, so that `"7"` and `7` are two values.
"""

import json
from collections.abc import Mapping, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from prunnet.errors import SearchError
from prunnet.search.strings import Strings

Value = str | int | float | bool
Metadata = Mapping[str, Value]
ABSENT = -1
MOST_KEYS = 64
_encode = json.JSONEncoder(allow_nan=False).encode


class Column(NamedTuple):
    """The value of row `i` is `values[codes[i]]`, unless that is `ABSENT`; values are in the order of their bytes."""

    codes: npt.NDArray[np.int32]
    values: Strings

    def at(self, row: int) -> Value | None:
        code = int(self.codes[row])
        if code == ABSENT:
            return None
        value: Value = json.loads(self.values.at(code))
        return value

    def equal_to(self, value: Value) -> npt.NDArray[np.bool_]:
        """Which rows have `value`."""
        code = self.values.place(as_text(value))
        return np.zeros(len(self.codes), dtype=np.bool_) if code == ABSENT else self.codes == code

    def taken(self, rows: npt.NDArray[Any]) -> "Column":
        """Of these rows, with the values that occur among them."""
        codes = self.codes[rows]
        used = np.unique(codes[codes != ABSENT])
        return Column(_renumbered(codes, used), self.values.taken(used))


def as_text(value: Value) -> str:
    """What is compared and stored."""
    if not isinstance(value, str | int | float | bool):
        raise SearchError(f"metadata values are texts, numbers or truth values; found {value!r}")
    try:
        return _encode(value)
    except ValueError:
        raise SearchError(f"metadata values are finite numbers; found {value!r}") from None


def checked(metadata: Metadata) -> Metadata:
    """`metadata`, if it can be kept."""
    for key, value in metadata.items():
        if not isinstance(key, str) or not key or len(key) > 100:
            raise SearchError(f"metadata keys are texts of 1 to 100 characters; found {key!r}")
        as_text(value)
    _check_count(metadata)
    return metadata


def columns_of(metadata: Sequence[Metadata]) -> dict[str, Column]:
    """A column for every key that occurs in a row; the metadata are `checked`."""
    texts: dict[str, list[str | None]] = {}
    for row, values in enumerate(metadata):
        for key, value in values.items():
            if key not in texts:
                texts[key] = [None] * len(metadata)
            texts[key][row] = as_text(value)
    _check_count(texts)
    return {key: _column(column) for key, column in texts.items()}


def join_columns(parts: Sequence[tuple[dict[str, Column], int]]) -> dict[str, Column]:
    """The columns of several segments, each with its number of rows, as those of one."""
    keys = sorted({key for columns, _ in parts for key in columns})
    return {key: _joined([(columns.get(key), rows) for columns, rows in parts]) for key in keys}


def _joined(parts: Sequence[tuple[Column | None, int]]) -> Column:
    words = sorted({word for column, _ in parts if column for word in column.values.all()}, key=_order)
    number = {word: code for code, word in enumerate(words)}
    codes = []
    for column, rows in parts:
        if column is None:
            codes.append(np.full(rows, ABSENT, dtype=np.int32))
        else:
            new = np.array([*(number[word] for word in column.values.all()), ABSENT], dtype=np.int32)
            codes.append(new[column.codes])
    return Column(np.concatenate(codes), Strings.of(words))


def _column(texts: Sequence[str | None]) -> Column:
    words = sorted({text for text in texts if text is not None}, key=_order)
    number: dict[str | None, int] = {None: ABSENT, **{word: code for code, word in enumerate(words)}}
    return Column(np.array([number[text] for text in texts], dtype=np.int32), Strings.of(words))


def _order(word: str) -> bytes:
    return word.encode("utf-8", "surrogateescape")


def _renumbered(codes: npt.NDArray[np.int32], used: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
    new: npt.NDArray[np.int32] = np.searchsorted(used, codes).astype(np.int32)
    new[codes == ABSENT] = ABSENT
    return new


def _check_count(keys: Sized) -> None:
    if len(keys) > MOST_KEYS:
        raise SearchError(f"metadata have at most {MOST_KEYS} keys; found {len(keys)}")
