"""Whatever happens to a file: one clear line or the very same subnetwork, never a crash or memory it cannot fill."""

import copy
import hashlib
import io
import json
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from prunnet.errors import CapacityError, FamilyError
from prunnet.storage.prun import pack, prefix_bytes, read_contents, unpack

PREAMBLE = 44


def header_of(packed: bytes) -> tuple[dict[str, Any], bytes]:
    length = struct.unpack_from("<I", packed, 8)[0]
    return json.loads(packed[PREAMBLE : PREAMBLE + length]), packed[PREAMBLE + length :]


def forge(packed: bytes, header: object) -> bytes:
    """A file with another header and a checksum that fits it."""
    text = json.dumps(header).encode()
    body = header_of(packed)[1]
    return packed[:8] + struct.pack("<I", len(text)) + hashlib.sha256(text).digest() + text + body


def assert_refused(data: bytes, capacity: float = 0.1) -> None:
    with pytest.raises(FamilyError) as error:
        unpack(io.BytesIO(data), capacity)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def boundaries(packed) -> list[int]:
    return [band.end for band in read_contents(io.BytesIO(packed)).bands]


def test_a_file_cut_anywhere_but_after_a_band_is_refused(packed, boundaries) -> None:
    header_end = len(packed) - len(header_of(packed)[1])
    around = [end + step for end in boundaries for step in range(-20, 21) if end + step <= len(packed)]
    drawn = np.random.default_rng(0).integers(header_end, len(packed), 1000).tolist()
    for length in {*range(0, header_end + 200, 7), *around, *drawn}:
        if length in boundaries[1:]:
            assert unpack(io.BytesIO(packed[:length]), 0.1).capacity == 0.1
        else:
            assert_refused(packed[:length])


def test_every_flipped_bit_of_the_prefix_is_refused(packed) -> None:
    end = prefix_bytes(io.BytesIO(packed), 0.1)
    header_end = len(packed) - len(header_of(packed)[1])
    drawn = np.random.default_rng(1).integers(0, 8 * end, 2000).tolist()
    for bit in {*range(8 * PREAMBLE), *range(8 * PREAMBLE, 8 * header_end, 29), *drawn}:
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        assert_refused(bytes(damaged))


def test_what_lies_beyond_the_prefix_does_not_matter(packed) -> None:
    end = prefix_bytes(io.BytesIO(packed), 0.1)
    expected = unpack(io.BytesIO(packed), 0.1).state_dict()
    found = unpack(io.BytesIO(packed[:end] + bytes(len(packed) - end)), 0.1).state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())
    assert_refused(packed[:end] + bytes(len(packed) - end), 0.15)


@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_any_mixture_of_damage_is_refused(packed, data) -> None:
    end = prefix_bytes(io.BytesIO(packed), 0.1)
    start = data.draw(st.integers(0, end - 1))
    stop = data.draw(st.integers(start, end))
    damaged = packed[:start] + data.draw(st.binary(max_size=64)) + packed[stop:]
    if damaged[:end] != packed[:end]:
        assert_refused(damaged)


def test_foreign_files_are_refused(packed) -> None:
    for foreign in (b"", b"PK\x03\x04", packed.replace(b"\r\n", b"\n"), bytes(100_000), packed + b"\0"):
        assert_refused(foreign)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 4}, "format version 4, this prunnet reads up to 3; upgrade"),
        ({"version": 1}, "version: Input should be 2 or 3"),
        ({"version": 2, "program": [["relu", [0], []]]}, "has a program, which version 2 does not allow"),
        ({"program": [["fold", [0], []]]}, "operation 0 of its program is fold"),
        ({"program": [["relu", [1], []]]}, "an input that is not there"),
        ({"program": [["relu", [-99], []]]}, "an input that is not there"),
        ({"program": [["relu", [0, 0], []]]}, "relu, has 2 inputs"),
        ({"program": [["relu", [0], [1]]]}, "relu, has 1 numbers"),
        ({"program": []}, "program"),
        ({"stepped": ["backbone.conv1.weight"]}, "has stepped layers, which float16 does not allow"),
        ({"values": "int8", "stepped": ["elsewhere"]}, "stepped layers are not among its layers"),
        ({"format": "other"}, "format: Input should be 'prunnet-progressive'"),
        ({"family_id": 3}, "family_id"),
        ({"extra": 1}, "extra"),
        ({"grid": [0.1, 0.05]}, "grid does not rise"),
        ({"grid": [1e-9, 1.0]}, "starts at 1 %"),
        ({"kept": [[1]]}, "does not say for every band how many"),
        ({"kept": [[1]] * 3, "grid": [0.05, 0.1, 0.15]}, "not those of nested subnetworks"),
        ({"layers": {}}, "names no layers"),
        ({"embedding_dim": 9}, "does not give 9 dimensions"),
        ({"preprocessing": {"input_size": [1]}}, "input_size"),
        ({"backbone": {"name": "resnet17", "options": {}}}, "did you mean resnet"),
        ({"backbone": {"name": "resnet18", "options": {}}}, "in the backbone"),
        ({"backbone": {"name": "resnet18", "options": {"depth": "deep"}}}, "cannot make resnet18"),
        ({"backbone": None}, "pass one"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_although_its_checksum_fits(packed, change, message) -> None:
    header, _ = header_of(packed)
    with pytest.raises(FamilyError, match=message):
        unpack(io.BytesIO(forge(packed, {**header, **change})), 0.1)


def test_no_claim_takes_more_memory_than_the_file_can_fill(packed) -> None:
    header, _ = header_of(packed)
    layer = next(iter(header["layers"]))
    claims = []
    for part, name, shape in (
        ("layers", layer, [2**15, 2**15]),
        ("layers", layer, [2**31 - 1, 2**31 - 1]),
        ("rest", "head.linear.weight", [8, 2**27]),
        ("statistics", "head.norm.running_mean", [2**30]),
    ):
        claims.append(copy.deepcopy(header))
        claims[-1][part][name] = shape
    for field in ("bytes", "membership"):
        claims.append(copy.deepcopy(header))
        claims[-1]["sections"][1][field] = 2**40
    claims.append({**header, "backbone": {"name": "resnet18", "options": {"channels": [2**16] * 4}}})
    for claim in claims:
        data = forge(packed, claim)
        tracemalloc.start()
        assert_refused(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * len(data) + 10_000_000
    assert_refused(packed[:8] + struct.pack("<I", 2**32 - 1) + packed[12:])


def test_a_variance_below_zero_is_refused(adapted_net, tmp_path) -> None:
    adapted_net.statistics.get(0.2)["head.norm.running_var"].neg_()
    with pytest.raises(FamilyError, match=r"head\.norm\.running_var is below zero"):
        unpack(pack(adapted_net, tmp_path / "a.prun", grid=(0.2, 1)), 0.2, backbone=adapted_net.backbone)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(data=st.data())
def test_any_header_is_refused_or_read(packed, data) -> None:
    """One value somewhere in the header becomes another one, under a checksum that fits."""
    header, _ = header_of(packed)
    node: Any = header
    while True:
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if not isinstance(node[key], dict | list) or not node[key] or data.draw(st.booleans()):
            break
        node = node[key]
    node[key] = data.draw(JSON)
    try:
        unpack(io.BytesIO(forge(packed, header)), 0.1)
    except (FamilyError, CapacityError) as error:
        assert "\n" not in str(error)
