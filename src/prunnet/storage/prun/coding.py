"""What the range coder of a `.prun` file is told: how likely a connection is kept, and how values are distributed.

Both alphabets are bytes, so that a table is small and one step of the coder settles eight connections or one value.
"""

import importlib
import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunnet.errors import FamilyError, MissingExtraError

Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]

TABLE = 32  # classes of a value table
LEAST_BITS = 3  # a class spreads evenly over eight symbols, so no value can take less


@cache
def _stream() -> Any:
    try:
        return importlib.import_module("constriction").stream
    except ImportError:
        raise MissingExtraError("constriction", "pack", "a .prun file") from None


class Encoder:
    """Collects symbols; `compressed` gives them as little-endian 32-bit words."""

    def __init__(self) -> None:
        self._coder = _stream().queue.RangeEncoder()

    def put(self, symbols: Bytes, weights: NDArray[np.float64]) -> None:
        if len(symbols):
            self._coder.encode(symbols.astype(np.int32), _model(weights))

    def compressed(self) -> bytes:
        words: NDArray[np.uint32] = self._coder.get_compressed()
        return words.astype("<u4").tobytes()


class Decoder:
    """Gives symbols back in the order in which they were put."""

    def __init__(self, compressed: bytes) -> None:
        self._coder = _stream().queue.RangeDecoder(np.frombuffer(compressed, "<u4").astype(np.uint32))

    def get(self, count: int, weights: NDArray[np.float64]) -> Bytes:
        if not count:
            return np.empty(0, np.uint8)
        try:
            symbols: NDArray[np.int32] = self._coder.decode(_model(weights), count)
        except (AssertionError, ValueError) as error:
            raise FamilyError("its coded symbols are not valid") from error
        return symbols.astype(np.uint8)


def _model(weights: NDArray[np.float64]) -> Any:
    return _stream().model.Categorical(weights, perfect=False)


def put_membership(encoder: Encoder, member: Bools) -> None:
    """Code which of the connections not yet kept join; nothing is written where none or all of them do."""
    kept = int(np.count_nonzero(member))
    if 0 < kept < len(member):
        encoder.put(np.packbits(member), _eight_connections(kept, len(member)))


def get_membership(decoder: Decoder, kept: int, among: int) -> Bools:
    """Which of `among` connections join, given that `kept` do."""
    if kept in (0, among):
        return np.full(among, kept == among)
    packed = decoder.get(-(-among // 8), _eight_connections(kept, among))
    bits = np.unpackbits(packed).view(np.bool_)
    member, padding = bits[:among], bits[among:]
    if np.count_nonzero(member) != kept or padding.any():
        raise FamilyError(f"it keeps another number of connections than the {kept} of {among} it must")
    return member


def membership_bound(kept: int, among: int) -> float:
    """log2 C(among, kept): no code can tell which connections join in fewer bits on average."""
    logarithm = math.lgamma(among + 1) - math.lgamma(kept + 1) - math.lgamma(among - kept + 1)
    return max(0.0, logarithm / math.log(2))


def _eight_connections(kept: int, among: int) -> NDArray[np.float64]:
    """Weights of the 256 patterns of eight connections, each kept with probability kept/among.

    Quotients of whole numbers are rounded once, so that encoder and decoder agree on every machine.
    """
    by_ones = [kept**ones * (among - kept) ** (8 - ones) / among**8 for ones in range(9)]
    return np.array([by_ones[pattern.bit_count()] for pattern in range(256)])


def table_of(classes: Bytes) -> Bytes:
    """How often each class occurs, relative to the most frequent one, in a byte; 0 only if it never does."""
    counts = np.bincount(classes, minlength=TABLE)
    scaled = np.rint(255 * counts / max(1, counts.max()))
    return np.where(counts > 0, np.maximum(scaled, 1), 0).astype(np.uint8)
