"""The range decoder in C finds, symbol for symbol, what the encoder of the library `constriction` was given."""

import ctypes
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunnet.storage.prun.coding import Encoder, _eight_connections, put_membership, table_of
from prunnet.storage.prun.numbers import half_classes, half_weights, step_classes, step_weights

SYMBOLS_MODEL = 257 * 4 + 256


def decode(functions: ctypes.CDLL, model: ctypes.Array, compressed: bytes, count: int) -> np.ndarray:
    decoder, symbols = ctypes.create_string_buffer(64), ctypes.create_string_buffer(max(1, count))
    words = ctypes.create_string_buffer(compressed, max(1, len(compressed)))
    functions.prun_decoder_start(decoder, words, ctypes.c_size_t(len(compressed)))
    assert functions.prun_decode(decoder, model, symbols, ctypes.c_size_t(count)) == 0
    return np.frombuffer(symbols.raw[:count], np.uint8)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3000), st.floats(0.2, 60.0), st.booleans())
def test_value_symbols_of_any_table(functions, seed, count, spread, steps) -> None:
    raw = np.clip(np.random.default_rng(seed).normal(128, spread, count), 0, 255).astype(np.uint8)
    classes, weights = (step_classes, step_weights) if steps else (half_classes, half_weights)
    table = table_of(classes(raw))
    encoder = Encoder()
    encoder.put(raw, weights(table))
    model = ctypes.create_string_buffer(SYMBOLS_MODEL)
    make = functions.prun_weights_of_steps if steps else functions.prun_weights_of_halves
    assert make(model, table.tobytes()) == 0
    assert np.array_equal(decode(functions, model, encoder.compressed(), count), raw)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5000), st.floats(0.0, 1.0))
def test_membership_of_any_share(functions, seed, among, share) -> None:
    member = np.random.default_rng(seed).random(among) < share
    kept = int(member.sum())
    if kept in (0, among):
        return
    encoder = Encoder()
    put_membership(encoder, member)
    model = ctypes.create_string_buffer(SYMBOLS_MODEL)
    functions.prun_weights_of_members(model, kept, among)
    found = decode(functions, model, encoder.compressed(), -(-among // 8))
    assert np.array_equal(np.unpackbits(found)[:among].astype(bool), member)


@settings(max_examples=500, deadline=None)
@given(st.integers(2, 2**31 - 1), st.data())
def test_bounds_of_any_share_are_those_of_the_specification(functions, among, data) -> None:
    kept = data.draw(st.integers(1, among - 1))
    cumulative = np.concatenate([[0.0], np.cumsum(_eight_connections(kept, among))])
    bounds = np.floor(cumulative * ((2**24 - 256) / cumulative[-1])).astype(np.uint32) + np.arange(257, dtype=np.uint32)
    bounds[256] = 2**24
    model = ctypes.create_string_buffer(SYMBOLS_MODEL)
    functions.prun_weights_of_members(model, kept, among)
    assert np.array_equal(np.frombuffer(model.raw[: 257 * 4], np.uint32), bounds)


class Node(ctypes.Structure):
    """The beginning of `json_node`, up to its number."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("type", "whole")),
        *((name, ctypes.c_uint32) for name in ("count", "key_size")),
        *((name, ctypes.c_void_p) for name in ("key", "text")),
        ("size", ctypes.c_uint32),
        ("number", ctypes.c_double),
    ]


def parsed(functions: ctypes.CDLL, text: bytes) -> tuple[float, int] | None:
    """Number and type of the JSON value, or None where it is refused."""
    functions.json_parse.restype = ctypes.POINTER(Node)
    document, reason = ctypes.create_string_buffer(16), ctypes.c_char_p()
    node = functions.json_parse(document, text, ctypes.c_size_t(len(text)), ctypes.byref(reason))
    found = (node.contents.number, node.contents.type) if node else None
    assert node or reason.value
    functions.json_free(document)
    return found


@settings(max_examples=500, deadline=None)
@given(st.floats(-1e40, 1e40) | st.floats(1e-40, 1e-3) | st.integers(-(10**17), 10**17))
def test_numbers_are_read_to_the_last_bit(functions, number) -> None:
    if number == 0 or abs(number) >= 1e-40:
        assert parsed(functions, json.dumps(number).encode()) == (float(number), 3)


@settings(max_examples=500, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    st.booleans(),
    st.integers(0, 40),
)
def test_json_is_read_as_python_reads_it(functions, value, ascii_only, cut) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    well_formed = b"\\ud" not in text.lower() and b"\xed" not in text
    assert (parsed(functions, text) is not None) or not well_formed
    shorter = text[: max(0, len(text) - 1 - cut)]
    try:
        json.loads(shorter.decode())
    except ValueError:
        assert parsed(functions, shorter) is None


@pytest.mark.parametrize(
    "text", ["", "01", "1.", ".5", "1e", "NaN", "Infinity", "[1,]", '{"a":1,}', "{1:2}", "nul", '"\t"', "1 2"]
)
def test_what_is_no_json_is_refused(functions, text) -> None:
    assert parsed(functions, text.encode()) is None


def test_nesting_has_an_end(functions) -> None:
    assert parsed(functions, b"[" * 60 + b"]" * 60) is not None
    assert parsed(functions, b"[" * 100_000) is None
