"""docs/prun-format.md says enough: a reader written from it, without the coder's library, finds the same network."""

import hashlib
import io
import json
import struct
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest

from prunnet.storage.prun import unpack


class RangeDecoder:
    def __init__(self, words: list[int]) -> None:
        self.words = iter(words)
        self.low, self.range = 0, 2**64 - 1
        self.point = next(self.words, 0) << 32 | next(self.words, 0)

    def get(self, count: int, weights: list[float]) -> Iterator[int]:
        cumulative = np.concatenate([[0.0], np.cumsum(weights)])
        bounds = np.floor(cumulative * ((2**24 - 256) / cumulative[-1])).astype(int) + np.arange(257)
        bounds[256] = 2**24
        for _ in range(count):
            unit = self.range >> 24
            quantile = (self.point - self.low) % 2**64 // unit
            symbol = int(np.searchsorted(bounds, quantile, side="right")) - 1
            self.low = (self.low + unit * int(bounds[symbol])) % 2**64
            self.range = unit * int(bounds[symbol + 1] - bounds[symbol])
            if self.range < 2**32:
                self.low, self.range = self.low << 32 & 2**64 - 1, self.range << 32
                self.point = (self.point << 32 | next(self.words, 0)) & 2**64 - 1
            yield symbol


def kept(header: dict[str, Any], band: int, layer: int) -> int:
    if header["kept"] is not None:
        return int(header["kept"][band][layer])
    return max(1, round(header["grid"][band] * prod(list(header["layers"].values())[layer])))


class Section:
    def __init__(self, payload: bytes, membership: int, exponents: int, tables: int, low: int) -> None:
        self.exponents = iter(struct.unpack_from(f"<{exponents}h", payload))
        start = 2 * exponents
        self.tables = iter([list(payload[start + 32 * i : start + 32 * (i + 1)]) for i in range(tables)])
        start += 32 * tables
        self.low = iter(payload[start : start + low])
        start += low
        words = [struct.unpack_from("<I", payload, at)[0] for at in range(start, len(payload), 4)]
        self.membership = RangeDecoder(words[: membership // 4])
        self.values = RangeDecoder(words[membership // 4 :])

    def halves(self, count: int) -> np.ndarray:
        table = next(self.tables)
        symbols = self.values.get(count, [table[(s >> 2) & 31] for s in range(256)])
        raw = bytes(byte for symbol in symbols for byte in (next(self.low), symbol))
        return np.frombuffer(raw, "<f2").astype(np.float64)

    def steps(self, count: int) -> np.ndarray:
        table = next(self.tables)
        return np.array(list(self.values.get(count, [table[s >> 3] for s in range(256)])), float) - 128

    def tensors(self, shapes: dict[str, list[int]]) -> dict[str, np.ndarray]:
        flat = self.halves(sum(map(prod, shapes.values())))
        found = {}
        for name, shape in shapes.items():
            found[name] = np.ldexp(flat[: prod(shape)], next(self.exponents)).reshape(shape)
            flat = flat[prod(shape) :]
        return found

    def members(self, k: int, n: int) -> np.ndarray:
        if k in (0, n):
            return np.full(n, k == n)
        weights = [k ** s.bit_count() * (n - k) ** (8 - s.bit_count()) / n**8 for s in range(256)]
        symbols = self.membership.get(-(-n // 8), weights)
        return np.array([bool(s >> bit & 1) for s in symbols for bit in range(7, -1, -1)])[:n]


def read(data: bytes, capacity: float) -> dict[str, np.ndarray]:
    assert data[:8] == b"\x89PRUN\r\n\x1a"
    length = struct.unpack_from("<I", data, 8)[0]
    text = data[44 : 44 + length]
    assert hashlib.sha256(text).digest() == data[12:44]
    header, at = json.loads(text), 44 + length
    stepped = header["stepped"]
    whole = [name for name in header["layers"] if name not in stepped]
    bands = header["grid"].index(capacity) + 1
    tensors, layers, remaining = {}, {}, {}
    for index, section in enumerate(header["sections"][: bands + 1]):
        payload, at = data[at : at + section["bytes"]], at + section["bytes"]
        assert hashlib.sha256(payload).hexdigest() == section["sha256"]
        if index == 0:
            shapes = {**header["rest"], **{f"{name}:scales": header["layers"][name][:1] for name in stepped}}
            numbers = (len(shapes) + len(whole), 1, sum(map(prod, shapes.values())))
            reader = Section(payload, section["membership"], *numbers)
            tensors = reader.tensors(shapes)
            exponents = {name: next(reader.exponents) for name in whole}
            layers = {name: np.zeros(shape) for name, shape in header["layers"].items()}
            remaining = {name: np.arange(layer.size) for name, layer in layers.items()}
            continue
        joining = {
            name: kept(header, index - 1, place) - (kept(header, index - 2, place) if index > 1 else 0)
            for place, name in enumerate(layers)
        }
        means = [name for name in header["statistics"] if name.endswith("running_mean")]
        shapes = {**header["statistics"], **{f"{name}:fine": header["statistics"][name] for name in means}}
        low = sum(map(prod, shapes.values())) + sum(joining[name] for name in whole)
        reader = Section(payload, section["membership"], len(shapes), 1 + len(layers), low)
        statistics = reader.tensors(shapes)
        for name in means:
            statistics[name] += statistics.pop(f"{name}:fine")
        for name, layer in layers.items():
            member = reader.members(joining[name], len(remaining[name]))
            positions, remaining[name] = remaining[name][member], remaining[name][~member]
            if name in stepped:
                scales = tensors[f"{name}:scales"][positions // layer[0].size]
                layer.flat[positions] = reader.steps(len(positions)) * scales
            else:
                layer.flat[positions] = np.ldexp(reader.halves(len(positions)), exponents[name])
    return {**tensors, **layers, **statistics}


@pytest.mark.parametrize("values", ["float16", "int8"])
@pytest.mark.parametrize("allocation", ["uniform", "protected"])
def test_a_reader_written_from_the_specification_agrees(pack_tiny, pack_protected, values, allocation) -> None:
    pack = pack_tiny if allocation == "uniform" else pack_protected
    data = pack(values=values, grid=(0.1, 0.2)).read_bytes()
    found = read(data, 0.2)
    for name, tensor in unpack(io.BytesIO(data), 0.2).state_dict().items():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_allclose(tensor.numpy(), found[name], rtol=1e-6, atol=0)
