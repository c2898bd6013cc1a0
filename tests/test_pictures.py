"""Every kind of picture, in memory or in a file, as 8-bit grey or RGB pixels."""

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from prunnet._pictures import FORMATS, MAX_PIXELS, ToChannels, read_picture, to_pixels
from prunnet.errors import ImageError, UnreadableImageError

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


@pytest.mark.parametrize(("name", "suffix"), [(name, suffix) for name in FORMATS for suffix in FORMATS[name]])
def test_every_format_is_read_whatever_its_name(name: str, suffix: str, tmp_path: Path) -> None:
    smooth = np.asarray(Image.fromarray(COLOUR).resize((40, 30)))
    for file in (tmp_path / f"picture{suffix}", tmp_path / "picture.jpg"):
        Image.fromarray(smooth).save(file, name, quality=95, lossless=True)
        difference = np.abs(np.asarray(read_picture(str(file)).convert("RGB")).astype(int) - smooth).mean()
        assert difference <= {"JPEG": 10, "GIF": 20}.get(name, 0)


@pytest.mark.parametrize(("suffix", "kind"), [(".png", np.uint16), (".tif", np.uint16), (".tif", np.int32)])
def test_sixteen_bit_files_are_scaled_to_eight(suffix: str, kind: type, tmp_path: Path) -> None:
    Image.fromarray(GREY.astype(kind) * 257).save(tmp_path / f"deep{suffix}")
    np.testing.assert_array_equal(np.asarray(read_picture(str(tmp_path / f"deep{suffix}"))), GREY)


@pytest.mark.parametrize("white", [1, 255])
def test_float_files_are_scaled_if_their_scale_is_known(white: int, tmp_path: Path) -> None:
    file = tmp_path / "float.tif"
    Image.fromarray(GREY.astype(np.float32) * (white / 255)).save(file)
    np.testing.assert_array_equal(np.asarray(read_picture(str(file))), GREY)
    Image.fromarray(GREY.astype(np.float32) * 100).save(file)
    with pytest.raises(UnreadableImageError, match=r"float\.tif: .*mode F must hold values in 0 … 255"):
        read_picture(str(file))


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
def test_files_are_turned_upright(suffix: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    half = np.zeros((16, 32), dtype=np.uint8)
    half[:, 16:] = 255
    Image.fromarray(half).save(tmp_path / f"turned{suffix}", exif=exif)
    upright = np.asarray(read_picture(str(tmp_path / f"turned{suffix}")).convert("L"))
    assert np.abs(upright.astype(int) - np.rot90(half, -1)).max() < 10


def test_other_formats_are_refused_before_anything_is_run(tmp_path: Path) -> None:
    file = tmp_path / "drawing.jpg"
    Image.fromarray(COLOUR).save(file, "EPS")
    with pytest.raises(UnreadableImageError, match=r"drawing\.jpg: .*none of JPEG, PNG, WEBP, BMP, TIFF, GIF, PPM"):
        read_picture(str(file))


def forged_png(width: int, height: int) -> bytes:
    """A sound header, and no pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [header, b"IDAT" + zlib.compress(b""), b"IEND"]
    framed = (struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


@pytest.mark.parametrize("side", [9_200, 13_000, 60_000])  # Pillow is silent, warns, raises
def test_too_many_pixels_are_refused_by_the_header(side: int, tmp_path: Path) -> None:
    file = tmp_path / "bomb.png"
    file.write_bytes(forged_png(side, side))
    with pytest.raises(UnreadableImageError, match=rf"bomb\.png: .*{side:,} × {side:,} pixels; at most {MAX_PIXELS:,}"):
        read_picture(str(file))


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "device.png").symlink_to("/dev/zero")
    for name in ("pipe.png", "folder.png", "device.png"):
        with pytest.raises(UnreadableImageError, match=rf"{name}: .*\(it is not a regular file\)"):
            read_picture(str(tmp_path / name))
    with pytest.raises(UnreadableImageError, match=r"absent\.png: no such image"):
        read_picture(str(tmp_path / "absent.png"))


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_named_in_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "damaged"
    Image.fromarray(COLOUR).resize((40, 30)).save(file, name)
    content = file.read_bytes()
    for length in range(0, len(content) - 40, 7):
        file.write_bytes(content[:length])
        with pytest.raises(UnreadableImageError, match=r"damaged: cannot be read as an image \(") as caught:
            read_picture(str(file))
        assert "\n" not in str(caught.value)


def test_channels_choose_grey_or_colour() -> None:
    assert [ToChannels(n)(Image.fromarray(a)).mode for n, a in ((1, GREY), (1, COLOUR), (3, GREY), (3, COLOUR))] == [
        "L", "L", "RGB", "RGB",
    ]  # fmt: skip
    np.testing.assert_array_equal(np.asarray(ToChannels(1)(ToChannels(3)(Image.fromarray(GREY)))), GREY)
    with pytest.raises(ImageError, match="1 or 3 channels, the network expects 4"):
        ToChannels(4)
