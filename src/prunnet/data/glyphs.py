"""The built-in data: characters of many scripts, drawn in many faces under varying conditions. A class is a character.

Nothing is downloaded and nothing is random: an image is a function of (seed, character, its number within the class).
Classes are the characters that the installed fonts can tell apart. Images are grey unless `rgb`, and small, so that a
network learns them on a CPU within minutes.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from prunnet._progress import track
from prunnet.data.images import ImageSet
from prunnet.data.retrieval import Protocol, RetrievalData
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
AUGMENTATION = {"scale": (0.7, 1.0), "ratio": (0.85, 1.18), "hflip": 0.0}  # a mirrored character is another one


def load_glyphs(
    classes: int = 300,
    images_per_class: int = 20,
    size: int = 32,
    difficulty: float = 0.5,
    fonts: Sequence[Path | str] = (),
    rgb: bool = False,
    seed: int = 0,
    min_faces: int = MIN_FACES,
) -> RetrievalData:
    """Two thirds of the `classes` for training; of the others a quarter of the images asks, the rest is the gallery.

    No face a character is queried in occurs in its gallery. `difficulty` from 0 (clean) to 1 scales rotation, shear,
    stroke width, blur, noise, contrast and background. `fonts` are font files used beside the built-in ones;
    characters that only they have become classes when `min_faces` is lowered.
    """
    if not 0 <= difficulty <= 1:
        raise DataError(f"glyphs: difficulty must lie in 0 … 1, not {difficulty}")
    if classes < 3 or images_per_class < 2 or size < 8:
        raise DataError("glyphs: at least 3 classes, 2 images per class and 8 pixels are needed")
    if min_faces < 2:
        raise DataError(f"glyphs: min_faces must be at least 2, so that query and gallery can differ; not {min_faces}")
    extra = [Path(font) for font in fonts]
    available = distinct_characters((*builtin_fonts(), *extra), min_faces)
    if classes > len(available):
        raise DataError(f"glyphs: {classes} classes asked for, the fonts have {len(available)} distinct characters")
    order = np.random.default_rng([seed, 0]).permutation(len(available))[:classes]
    characters = [list(available)[i] for i in order]
    trained = sorted(characters[: classes * 2 // 3])
    tested = sorted(characters[classes * 2 // 3 :])
    queries = max(1, images_per_class // 4)
    style = _Style(size, difficulty, 3 if rgb else 1)

    def render(drawn: list[str], numbers: range, part: str) -> ImageSet:
        images, labels, ids = [], [], []
        for label, character in enumerate(track(drawn, f"drawing glyphs ({part})")):
            faces = _faces(available[character], part, seed, character)
            for number in numbers:
                rng = np.random.default_rng([seed, ord(character), number])
                face = faces[int(rng.integers(len(faces)))]
                images.append(style.render(character, face, rng))
                labels.append(label)
                ids.append(f"U+{ord(character):04X}/{number:03d}-{face.stem}")
        names = [f"U+{ord(c):04X} {unicodedata.name(c, 'UNNAMED')}" for c in drawn]
        return ImageSet.from_arrays(np.stack(images), labels, names, ids)

    return RetrievalData(
        name="glyphs",
        train=render(trained, range(images_per_class), "train"),
        query=render(tested, range(queries), "query"),
        gallery=render(tested, range(queries, images_per_class), "gallery"),
        protocol=Protocol(metric="mAP"),
        augmentation=AUGMENTATION,
    )


def _faces(available: tuple[Path, ...], part: str, seed: int, character: str) -> list[Path]:
    order = np.random.default_rng([seed, 1, ord(character)]).permutation(len(available))
    shuffled = [available[i] for i in order]
    asked = max(1, len(shuffled) // 3)
    return {"train": shuffled, "query": shuffled[:asked], "gallery": shuffled[asked:]}[part]


class _Style:
    """How characters are drawn at one size and difficulty."""

    def __init__(self, size: int, difficulty: float, channels: int) -> None:
        self.size, self.difficulty, self.channels = size, difficulty, channels

    def render(self, character: str, face: Path, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
        d = self.difficulty
        glyph = draw(character, face, stroke=float(rng.uniform(0, 2.5 * d)))
        if glyph is None:
            raise DataError(f"{face}: leaves {character!r} (U+{ord(character):04X}) blank")
        ink = self._place(glyph, rng)
        paper_tone, ink_tone = self._tones(rng)
        paper = paper_tone + d * 60 * self._texture(rng)[..., None]
        image = paper + (ink_tone - paper) * ink[..., None]
        image += rng.normal(0, 1 + 24 * d * rng.random(), image.shape)
        pixels = image.clip(0, 255).astype(np.uint8)
        return pixels if self.channels == 3 else pixels[..., 0]

    def _place(self, glyph: Image.Image, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Ink coverage in [0, 1] after a random affine map, drawn at twice the size against jagged edges."""
        d, side = self.difficulty, 2 * self.size
        angle, shear = rng.uniform(-0.45, 0.45, 2) * d
        stretch = np.exp(rng.uniform(-0.25, 0.25) * d)
        extent = side * (0.78 - 0.3 * d * rng.random())
        cos, sin = np.cos(angle), np.sin(angle)
        forward = np.array([[cos, -sin], [sin, cos]]) @ np.array([[stretch, shear], [0, 1 / stretch]])
        reach = np.abs(forward) @ (np.array(glyph.size) / 2)  # half the box of the mapped glyph
        backward = np.linalg.inv(forward * (extent / (2 * reach.max())))
        free = (side - extent) / 2
        centre = side / 2 + rng.uniform(-1, 1, 2) * free * d
        offset = np.array(glyph.size) / 2 - backward @ centre
        coefficients = (*backward[0], offset[0], *backward[1], offset[1])
        placed = glyph.transform((side, side), Image.Transform.AFFINE, coefficients, Image.Resampling.BILINEAR)
        blurred = placed.filter(ImageFilter.GaussianBlur(0.4 + 1.8 * d * float(rng.random())))
        return np.asarray(blurred.reduce(2)) / 255

    def _tones(self, rng: np.random.Generator) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The grey or colour of paper and ink: dark on light when easy, either way and closer when difficult."""
        contrast = 220 - 130 * self.difficulty * rng.random()
        darker = rng.uniform(0, 235 - contrast)
        tones = np.array([darker + contrast, darker])
        if rng.random() < self.difficulty / 2:
            tones = tones[::-1]
        colours = np.repeat(tones[:, None], self.channels, axis=1)
        if self.channels == 3:
            colours = colours + rng.uniform(-45, 45, colours.shape)
        return colours[0], colours[1]

    def _texture(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Smooth stains in [−½, ½]: coarse noise, enlarged."""
        cells = int(rng.integers(3, 7))
        coarse = Image.fromarray(rng.integers(0, 256, (cells, cells), dtype=np.uint8))
        smooth = coarse.resize((self.size, self.size), Image.Resampling.BICUBIC)
        return np.asarray(smooth) / 255 - 0.5


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
