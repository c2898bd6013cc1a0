"""A picture becomes what Pillow, torchvision and timm make of it."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import prunnet
from prunnet.runtime.library import declared

INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "box", "hamming", "lanczos")


class Preprocessing(ctypes.Structure):
    """`prun_preprocessing`."""

    _fields_ = [
        ("input_size", ctypes.c_int * 3),
        ("mean", ctypes.c_double * 4096),
        ("std", ctypes.c_double * 4096),
        ("interpolation", ctypes.c_int),
        ("crop_pct", ctypes.c_double),
    ]


def preprocessed(functions: ctypes.CDLL, told: prunnet.Preprocessing, picture: Image.Image) -> np.ndarray:
    given = Preprocessing((ctypes.c_int * 3)(*told.input_size))
    given.interpolation, given.crop_pct = INTERPOLATIONS.index(told.interpolation), told.crop_pct
    for channel, (mean, std) in enumerate(zip(told.mean, told.std, strict=True)):
        given.mean[channel], given.std[channel] = mean, std
    room, problem = ctypes.create_string_buffer(256), ctypes.create_string_buffer(512)
    assert functions.prun_picture_prepare(room, ctypes.byref(given), problem) == 0
    image = np.empty(told.input_size, np.float32)
    pixels, (width, height) = picture.tobytes(), picture.size
    pitch = ctypes.c_size_t(image[0].size)
    out = ctypes.c_void_p(image.ctypes.data)
    bands = len(picture.getbands())
    code = functions.prun_picture_read(room, ctypes.byref(given), pixels, width, height, bands, out, pitch, problem)
    functions.prun_picture_free(room)
    assert code == 0, problem.raw[4:].split(b"\0")[0]
    return image


@settings(max_examples=150, deadline=None)
@given(
    size=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    wanted=st.tuples(st.sampled_from([1, 3]), st.integers(1, 40), st.integers(1, 40)),
    square=st.booleans(),
    interpolation=st.sampled_from(INTERPOLATIONS),
    crop_pct=st.sampled_from([1.0, 0.875, 0.95, 0.5, 1.2]),
    seed=st.integers(0, 99),
)
def test_any_picture_becomes_what_torch_sees(functions, size, wanted, square, interpolation, crop_pct, seed) -> None:
    wanted = (wanted[0], wanted[1], wanted[1]) if square else wanted
    if min(wanted[1:]) / crop_pct < 1 or max(size) / min(size) > 60:
        return
    told = prunnet.Preprocessing(wanted, (0.4, 0.5, 0.3)[: wanted[0]], (0.2,) * wanted[0], interpolation, crop_pct)
    # grey enough that no filter reaches black or white between its two passes, where their order would matter
    picture = Image.fromarray(np.random.default_rng(seed).integers(80, 176, (size[1], size[0], 3), dtype=np.uint8))
    expected = told.batch([picture])[0].numpy()
    found = preprocessed(functions, told, picture)
    # Pillow takes rows or columns first, by the sizes, which rounds to other bytes now and then
    levels = np.abs(found - expected) * 255 * 0.2
    assert levels.max() < (0.01 if interpolation == "nearest" and square else 2.01)
    assert levels.mean() < 0.5 or levels.size < 64  # of few pixels all may be one off


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_grey_and_alpha(functions, mode) -> None:
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 4), dtype=np.uint8)).convert(mode)
    for channels in (1, 3):
        told = prunnet.Preprocessing((channels, 24, 24), interpolation="bicubic", crop_pct=0.9)
        expected = told.batch([picture.convert("RGB") if mode == "RGBA" else picture])[0].numpy()
        np.testing.assert_array_equal(preprocessed(functions, told, picture), expected)


def test_the_types_of_the_functions_are_those_of_the_library(functions) -> None:
    declared(functions)
    assert functions.prunnet_message(None) == b"there is not enough memory"
