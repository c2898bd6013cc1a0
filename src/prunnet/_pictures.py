"""Pictures as they should be read: from any mode to 8-bit grey or RGB, by one rule for files and for PIL images."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np
from PIL import ExifTags, Image, ImageOps

from prunnet.errors import ImageError, UnreadableImageError

FORMATS = {
    "JPEG": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "GIF": (".gif",),
    "PPM": (".ppm", ".pgm"),
}
"""What is read, and the suffixes it goes by. Of the others that Pillow knows one runs a program (EPS)."""

SUFFIXES = frozenset(chain(*FORMATS.values()))

MAX_PIXELS = 80_000_000
"""240 MB as RGB. Pillow warns of pictures somewhat larger."""


def read_picture(path: str) -> Image.Image:
    """The picture in the file at `path`, in mode L or RGB; of several frames or pages the first."""
    with _speaking_of(path):
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise ImageError("it is not a regular file")  # to open a pipe is to wait for its writer
        with Path(path).open("rb") as file:
            return _read(file)


def decode_picture(encoded: bytes, name: str) -> Image.Image:
    """The same of the bytes of a file; errors speak of `name`."""
    with _speaking_of(name):
        return _read(BytesIO(encoded))


@contextmanager
def _speaking_of(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise UnreadableImageError(f"{name}: no such image") from None
    except Exception as error:  # damaged files raise whatever the misread bytes lead to
        raise UnreadableImageError(f"{name}: cannot be read as an image ({error})".replace("\n", " ")) from None


def _read(file: IO[bytes]) -> Image.Image:
    picture = _open(file)
    width, height = picture.size
    if width * height > MAX_PIXELS:
        raise ImageError(f"{width:,} × {height:,} pixels; at most {MAX_PIXELS:,} are read")
    return to_pixels(picture)


def _open(file: IO[bytes]) -> Image.Image:
    """`Image.open` among `FORMATS`, without its warning of large pictures: `MAX_PIXELS` is checked instead."""
    if not FORMATS.keys() <= Image.OPEN.keys():
        Image.init()
    prefix = file.read(16)
    for name in FORMATS:
        make, accepts = Image.OPEN[name]
        if accepts is None or accepts(prefix):
            file.seek(0)
            return make(file, "")  # by a name Pillow would map raw pixels into memory, and misread turned TIFF files
    raise ImageError(f"it is none of {', '.join(FORMATS)}")


def thumbnail(picture: Image.Image, side: int) -> tuple[bytes, str]:
    """A copy of at most `side` pixels as a file, and its media type: exact for small pictures, JPEG for photographs."""
    small = picture.copy()
    exact = max(picture.size) <= side
    small.thumbnail((side, side))
    data = BytesIO()
    (small if exact else small.convert("RGB")).save(data, "PNG" if exact else "JPEG", optimize=True)
    return data.getvalue(), "image/png" if exact else "image/jpeg"


class ToChannels:
    """What every transform begins with: any picture as grey pixels for one channel, as RGB for three."""

    def __init__(self, channels: int) -> None:
        if channels not in (1, 3):
            raise ImageError(
                f"pictures have 1 or 3 channels, the network expects {channels}; give preprocessed float tensors"
            )
        self.mode = "L" if channels == 1 else "RGB"

    def __call__(self, picture: Image.Image) -> Image.Image:
        pixels = to_pixels(picture)
        return pixels if pixels.mode == self.mode else pixels.convert(self.mode)

    def __repr__(self) -> str:
        return f"ToChannels({self.mode})"


def to_pixels(picture: Image.Image) -> Image.Image:
    """`picture` turned as its EXIF orientation says, in mode L or RGB.

    16-bit values are divided by 257, so that 65,535 becomes 255. Float values are taken as lying in [0, 1] if they all
    do, else in [0, 255]. Alpha is dropped: a transparent pixel has the colour that is stored for it.
    """
    try:
        picture.load()
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageError(f"the picture cannot be decoded: {error}".replace("\n", " ")) from None
    if _orientation(picture) != 1:
        picture = ImageOps.exif_transpose(picture)
    if picture.mode in ("L", "RGB"):
        return picture
    if picture.mode in ("1", "LA"):
        return picture.convert("L")
    if picture.mode == "I" or picture.mode.startswith("I;16"):
        return _scaled(picture, 65535)
    if picture.mode == "F":
        values = np.asarray(picture)
        return _scaled(picture, 1 if (values <= 1).all() else 255)
    if picture.mode in ("P", "PA"):
        picture = picture.convert("RGBA")  # its palette may hold alpha, which a conversion to RGB warns of
    try:
        return picture.convert("RGB")
    except ValueError as error:
        raise ImageError(f"pictures of mode {picture.mode} cannot be shown in RGB ({error})") from None


def _orientation(picture: Image.Image) -> int:
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # damaged metadata raise whatever the misread bytes lead to, and the pixels are sound
        return 1


def _scaled(picture: Image.Image, white: int) -> Image.Image:
    values = np.asarray(picture)
    if not ((values >= 0) & (values <= white)).all():
        raise ImageError(f"pictures of mode {picture.mode} must hold values in 0 … {white}")
    return Image.fromarray(np.rint(values * (255 / white)).astype(np.uint8))
