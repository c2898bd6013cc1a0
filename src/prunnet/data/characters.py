"""Which characters the installed fonts can tell apart: the classes of the built-in `glyphs`."""

import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from prunnet.errors import DataError

FACES = (
    *(f"DejaVu{family}.ttf" for family in ("Sans", "Sans-Bold", "Sans-Oblique", "Sans-BoldOblique")),
    *(f"DejaVu{family}.ttf" for family in ("Serif", "Serif-Bold", "Serif-Italic", "Serif-BoldItalic")),
    *(f"DejaVu{family}.ttf" for family in ("SansMono", "SansMono-Bold", "SansMono-Oblique", "SansMono-BoldOblique")),
    *(f"STIXGeneral{style}.ttf" for style in ("", "Bol", "Italic", "BolIta")),
)
"""The faces with a large repertoire among those matplotlib ships; upright DejaVu Sans leads, as the reference."""

MIN_FACES = 8  # query and gallery draw a character in different faces, so it has to exist in several
MAX_SIMILARITY = 0.88  # cosine of two clean drawings; most pairs above it cannot be told apart once size and slant vary
CATEGORIES = ("Lu", "Ll", "Lo", "Nd")  # upper case, lower case, letters of scripts without case, digits
GLYPH_PIXELS = 48


def builtin_fonts() -> list[Path]:
    """The font files every installation has."""
    import matplotlib

    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    return [folder / face for face in FACES]


@cache
def distinct_characters(fonts: tuple[Path, ...], min_faces: int = MIN_FACES) -> dict[str, tuple[Path, ...]]:
    """Characters that at least `min_faces` fonts draw and that look like no other, with the fonts that have them."""
    faces: dict[str, list[Path]] = {}
    for font in fonts:
        for character in repertoire(font):
            faces.setdefault(character, []).append(font)
    candidates = [c for c in sorted(faces) if len(faces[c]) >= min_faces]
    drawn = {c: clean_drawing(c, faces[c][0]) for c in candidates}
    visible = [c for c in candidates if drawn[c] is not None]
    if not visible:
        raise DataError(f"no character is in at least {min_faces} of the {len(fonts)} fonts")
    kept = _without_lookalikes(np.stack([drawn[c] for c in visible]))  # type: ignore[misc]
    return {visible[i]: tuple(faces[visible[i]]) for i in kept}


def repertoire(font: Path) -> list[str]:
    """The letters and digits that `font` defines, without those composed of a letter and an accent."""
    from matplotlib.ft2font import FT2Font

    try:
        codes = FT2Font(str(font)).get_charmap()
    except (RuntimeError, OSError) as error:
        raise DataError(f"{font}: not a font file ({error})".replace("\n", " ")) from None
    characters = map(chr, codes)
    return [c for c in characters if unicodedata.category(c) in CATEGORIES and not unicodedata.decomposition(c)]


@cache
def open_font(font: Path, pixels: int = GLYPH_PIXELS) -> ImageFont.FreeTypeFont:
    """The font at a size; the basic layout draws alike whether or not a shaping library is installed."""
    return ImageFont.truetype(str(font), pixels, layout_engine=ImageFont.Layout.BASIC)


def draw(character: str, font: Path, stroke: float = 0.0) -> Image.Image | None:
    """White ink on black, cropped to the ink; nothing if the font leaves the character blank."""
    face = open_font(font)
    left, top, right, bottom = (int(edge) for edge in face.getbbox(character, stroke_width=stroke))
    if right <= left or bottom <= top:
        return None
    image = Image.new("L", (right - left + 2, bottom - top + 2))
    ImageDraw.Draw(image).text((1 - left, 1 - top), character, fill=255, font=face, stroke_width=stroke)
    ink = image.getbbox()
    return image.crop(ink) if ink else None


def clean_drawing(character: str, font: Path, side: int = 20) -> npt.NDArray[np.float32] | None:
    """The character scaled into a square, as a unit vector: what remains when size and position vary."""
    ink = draw(character, font)
    if ink is None:
        return None
    scale = side / max(ink.size)
    small = ink.resize((max(1, round(ink.width * scale)), max(1, round(ink.height * scale))), Image.Resampling.BOX)
    square = Image.new("L", (side, side))
    square.paste(small, ((side - small.width) // 2, (side - small.height) // 2))
    vector = np.asarray(square, dtype=np.float32).ravel()
    return vector / np.linalg.norm(vector)


def _without_lookalikes(drawings: npt.NDArray[np.float32]) -> Sequence[int]:
    similarity = drawings @ drawings.T
    kept: list[int] = []
    for index in range(len(drawings)):
        if not kept or similarity[index, kept].max() < MAX_SIMILARITY:
            kept.append(index)
    return kept
