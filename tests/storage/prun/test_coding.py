from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prunnet.errors import FamilyError
from prunnet.storage.prun.coding import Decoder, Encoder, get_membership, membership_bound, put_membership, table_of
from prunnet.storage.prun.numbers import (
    exponent_for,
    filter_scales,
    from_halves,
    from_steps,
    half_classes,
    half_weights,
    rounded,
    step_classes,
    step_weights,
    to_halves,
    to_steps,
)


@given(st.lists(st.lists(st.booleans(), max_size=70), max_size=5))
def test_membership_of_any_layers_comes_back(layers) -> None:
    encoder = Encoder()
    members = [np.array(layer, bool) for layer in layers]
    for member in members:
        put_membership(encoder, member)
    decoder = Decoder(encoder.compressed())
    for member in members:
        assert np.array_equal(get_membership(decoder, int(member.sum()), len(member)), member)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.5, 0.9, 0.99])
def test_membership_takes_hardly_more_than_the_bound(share) -> None:
    member = np.random.default_rng(0).random(200_000) < share
    encoder = Encoder()
    put_membership(encoder, member)
    bound = membership_bound(int(member.sum()), len(member))
    assert bound <= 8 * len(encoder.compressed()) <= 1.005 * bound + 64


def test_the_bound_is_log2_of_the_binomial_coefficient() -> None:
    assert membership_bound(3, 10) == pytest.approx(np.log2(120))
    assert membership_bound(0, 10) == membership_bound(10, 10) == 0


@given(st.binary(max_size=400).map(lambda raw: raw[: len(raw) // 4 * 4]), st.integers(1, 99))
def test_arbitrary_words_give_membership_or_one_clear_error(words, kept) -> None:
    with suppress(FamilyError):
        assert get_membership(Decoder(words), kept, 100).sum() == kept


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_half_precision_holds_every_finite_float_to_the_stated_tolerance(numbers) -> None:
    values = np.array(numbers, np.float32)
    exponent = exponent_for(values, "weight")
    found = from_halves(to_halves(values, exponent), exponent).astype(np.float64)
    largest = np.abs(values).max().astype(np.float64)
    tiny = 2.0**-150  # float32 itself ends there
    assert (np.abs(found - values) <= 2.0**-11 * np.abs(values) + 2.0**-39 * largest + tiny).all()
    assert -32768 <= exponent <= 32767


@given(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=20))
def test_steps_are_within_half_a_step_of_the_filter(numbers) -> None:
    weight = np.array([numbers, np.ones(len(numbers))], np.float32)
    scales = rounded(filter_scales(weight), "weight")
    found = from_steps(to_steps(weight, scales), np.repeat(scales, len(numbers)))
    step = np.abs(weight).max(1, keepdims=True) / 127
    # a filter far below the largest loses its scale, and all of itself, to the range of half precision
    lost = 2.0**-39 * 127 * step.max()
    assert (np.abs(found.reshape(weight.shape) - weight) <= 0.501 * step + lost).all()


@settings(max_examples=50)
@given(st.binary(min_size=1), st.sampled_from([(half_classes, half_weights), (step_classes, step_weights)]))
def test_value_symbols_come_back_and_never_take_less_than_three_bits(raw, model) -> None:
    classes, weights = model
    symbols = np.frombuffer(raw, np.uint8)
    table = table_of(classes(symbols))
    encoder = Encoder()
    encoder.put(symbols, weights(table))
    compressed = encoder.compressed()
    assert np.array_equal(Decoder(compressed).get(len(symbols), weights(table)), symbols)
    assert len(compressed) >= 3 * len(symbols) // 8 - 16
    assert (table[classes(symbols)] > 0).all()


def test_a_table_follows_the_counts() -> None:
    table = table_of(np.array([3] * 510 + [7] * 255 + [9], np.uint8))
    assert table[[3, 7, 9]].tolist() == [255, 128, 1] and table.sum() == 384
