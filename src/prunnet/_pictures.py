"""Pictures as they should be read: from any mode to 8-bit grey or RGB, by one rule for files and for PIL images."""

import numpy as np
from PIL import ExifTags, Image, ImageOps

from prunnet.errors import ImageError


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
        raise ImageError(f"a picture cannot be decoded ({error})".replace("\n", " ")) from None
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
        raise ImageError(f"a picture of mode {picture.mode} cannot be shown in RGB ({error})") from None


def _orientation(picture: Image.Image) -> int:
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # damaged metadata raise whatever the misread bytes lead to, and the pixels are sound
        return 1


def _scaled(picture: Image.Image, white: int) -> Image.Image:
    values = np.asarray(picture)
    if not ((values >= 0) & (values <= white)).all():
        raise ImageError(f"a picture of mode {picture.mode} must hold values in 0 … {white}")
    return Image.fromarray(np.rint(values * (255 / white)).astype(np.uint8))
