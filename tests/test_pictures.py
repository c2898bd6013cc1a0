"""Every kind of picture as 8-bit grey or RGB pixels."""

import numpy as np
import pytest
from PIL import ExifTags, Image

from prunnet._pictures import ToChannels, to_pixels
from prunnet.errors import ImageError

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 5), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (6, 5, 3), dtype=np.uint8)


def with_alpha(pixels: np.ndarray) -> np.ndarray:
    return np.dstack([pixels, RNG.integers(0, 256, GREY.shape, dtype=np.uint8)])


def palette(transparency: bytes | int | None = None) -> Image.Image:
    picture = Image.fromarray(COLOUR).quantize(16)
    if transparency is not None:
        picture.info["transparency"] = transparency
    return picture


@pytest.mark.parametrize(
    ("picture", "pixels"),
    [
        (Image.fromarray(GREY), GREY),
        (Image.fromarray(COLOUR), COLOUR),
        (Image.fromarray(GREY > 128), 255 * (GREY > 128)),
        (Image.fromarray(with_alpha(GREY)), GREY),
        (Image.fromarray(with_alpha(COLOUR)), COLOUR),
        (Image.fromarray(GREY.astype(np.uint16) * 257), GREY),
        (Image.fromarray(GREY.astype(np.uint16) * 257 + 100), GREY),
        (Image.fromarray(GREY.astype(np.int32) * 257), GREY),
        (Image.fromarray(GREY.astype(np.float32)), GREY),
        (Image.fromarray(GREY.astype(np.float32) / 255), GREY),
        (palette(), palette().convert("RGB")),
        (palette(3), palette().convert("RGB")),
        (palette(bytes(16)), palette().convert("RGB")),
        (Image.fromarray(COLOUR).convert("CMYK"), COLOUR),
    ],
    ids=lambda value: value.mode if isinstance(value, Image.Image) else "",
)
def test_every_mode_has_its_pixels(picture, pixels) -> None:
    np.testing.assert_allclose(np.asarray(to_pixels(picture)), np.asarray(pixels), atol=picture.mode == "CMYK")


@pytest.mark.parametrize("values", [-1.0, 255.5, float("nan"), float("inf")])
def test_floats_of_an_unknown_scale_are_refused(values: float) -> None:
    with pytest.raises(ImageError, match="mode F must hold values in 0"):
        to_pixels(Image.fromarray(np.full((2, 2), values, dtype=np.float32)))


@pytest.mark.parametrize("value", [-1, 65536])
def test_whole_numbers_beyond_16_bit_are_refused(value: int) -> None:
    with pytest.raises(ImageError, match="mode I must hold values in 0 … 65535"):
        to_pixels(Image.fromarray(np.full((2, 2), value, dtype=np.int32)))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_as_their_exif_orientation_says(orientation: int) -> None:
    turns = [np.array, np.fliplr, lambda a: np.rot90(a, 2), np.flipud]
    turns += [lambda a: a.swapaxes(0, 1), lambda a: np.rot90(a, -1), lambda a: np.rot90(a, 2).swapaxes(0, 1), np.rot90]
    picture = Image.fromarray(COLOUR)
    picture.getexif()[ExifTags.Base.Orientation] = orientation
    upright = to_pixels(picture)
    np.testing.assert_array_equal(np.asarray(upright), turns[orientation - 1](COLOUR))
    np.testing.assert_array_equal(np.asarray(to_pixels(upright)), np.asarray(upright))


def test_damaged_metadata_leave_the_pixels_alone() -> None:
    picture = Image.fromarray(COLOUR)
    picture.info["exif"] = b"Exif\0\0 not a directory"
    np.testing.assert_array_equal(np.asarray(to_pixels(picture)), COLOUR)


def test_channels_choose_grey_or_colour() -> None:
    assert [ToChannels(n)(Image.fromarray(a)).mode for n, a in ((1, GREY), (1, COLOUR), (3, GREY), (3, COLOUR))] == [
        "L", "L", "RGB", "RGB",
    ]  # fmt: skip
    np.testing.assert_array_equal(np.asarray(ToChannels(1)(ToChannels(3)(Image.fromarray(GREY)))), GREY)
    with pytest.raises(ImageError, match="1 or 3 channels, the network expects 4"):
        ToChannels(4)
