"""A section of a `.prun` file: what is not pruned, or one band. Raw arrays first, then two range-coded streams."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from prunnet.storage.prun.coding import TABLE, Bools, Bytes, Decoder, Encoder, get_membership, put_membership, table_of
from prunnet.storage.prun.header import Header
from prunnet.storage.prun.numbers import (
    Floats,
    Halves,
    exponent_for,
    from_halves,
    half_classes,
    half_weights,
    step_classes,
    step_weights,
    to_halves,
)

Coded = NDArray[np.uint16] | NDArray[np.uint8]  # halves, or steps


class SectionWriter:
    """Collects tensors and layers in file order."""

    def __init__(self) -> None:
        self._exponents: list[int] = []
        self._tables: list[Bytes] = []
        self._low: list[Bytes] = []
        self._membership = Encoder()
        self._values = Encoder()

    def tensors(self, tensors: Mapping[str, Floats]) -> None:
        """Whole tensors in half precision, each with an exponent of its own, all under one table."""
        exponents = [exponent_for(values, name) for name, values in tensors.items()]
        self._exponents += exponents
        flat = [to_halves(v, e).ravel() for v, e in zip(tensors.values(), exponents, strict=True)]
        self._put_halves(np.concatenate(flat) if flat else np.empty(0, np.uint16))

    def exponents(self, exponents: Iterable[int]) -> None:
        self._exponents += exponents

    def layer(self, member: Bools, values: Coded) -> None:
        """The connections of a layer that join, in half precision (16 bits) or steps (8 bits)."""
        put_membership(self._membership, member)
        if values.dtype == np.uint16:
            self._put_halves(values)
        else:
            self._put(values.astype(np.uint8), step_classes, step_weights)

    def _put_halves(self, halves: Coded) -> None:
        self._low.append((halves & 255).astype(np.uint8))
        self._put((halves >> 8).astype(np.uint8), half_classes, half_weights)

    def _put(
        self, symbols: Bytes, classes: Callable[[Bytes], Bytes], weights: Callable[[Bytes], NDArray[np.float64]]
    ) -> None:
        table = table_of(classes(symbols))
        self._tables.append(table)
        self._values.put(symbols, weights(table))

    def finish(self) -> tuple[bytes, int]:
        """The section, and how many of its bytes tell membership."""
        membership, values = self._membership.compressed(), self._values.compressed()
        exponents = np.array(self._exponents, "<i2").tobytes()
        raw = b"".join(array.tobytes() for array in (*self._tables, *self._low))
        return exponents + raw + membership + values, len(membership)


class SectionReader:
    """Gives tensors and layers back in file order."""

    def __init__(self, payload: bytes, header: Header, section: int) -> None:
        exponents, tables, low = header.raw_sizes(section)
        membership = exponents + tables + low
        values = membership + header.sections[section].membership
        self._exponents: Iterator[int] = iter(np.frombuffer(payload, "<i2", exponents // 2).tolist())
        self._tables: Iterator[Bytes] = iter(np.frombuffer(payload, np.uint8, tables, exponents).reshape(-1, TABLE))
        self._low: Bytes = np.frombuffer(payload, np.uint8, low, exponents + tables)
        self._membership = Decoder(payload[membership:values])
        self._values = Decoder(payload[values:])
        self._shapes = header.half_shapes(section)

    def tensors(self) -> dict[str, Floats]:
        sizes = [int(np.prod(shape, dtype=np.int64)) for shape in self._shapes.values()]
        flat = self.halves(sum(sizes))
        pieces = np.split(flat, np.cumsum(sizes)[:-1])
        return {
            name: from_halves(piece, self.exponent()).reshape(shape)
            for (name, shape), piece in zip(self._shapes.items(), pieces, strict=True)
        }

    def exponent(self) -> int:
        return next(self._exponents)

    def membership(self, kept: int, among: int) -> Bools:
        return get_membership(self._membership, kept, among)

    def halves(self, count: int) -> Halves:
        high = self._values.get(count, half_weights(next(self._tables)))
        low, self._low = self._low[:count], self._low[count:]
        return np.left_shift(high, 8, dtype=np.uint16) | low

    def steps(self, count: int) -> Bytes:
        return self._values.get(count, step_weights(next(self._tables)))
