import numpy as np
import pytest

from prunnet.data import load_data
from prunnet.data.glyphs import MAX_SIMILARITY, builtin_fonts, clean_drawing, distinct_characters
from prunnet.errors import DataError

SMALL = {"classes": 12, "images_per_class": 8, "size": 24}


def pixels(images):
    return np.stack([np.asarray(images.image(i)) for i in range(len(images))])


@pytest.fixture(scope="module")
def glyphs():
    return load_data("glyphs", **SMALL)


def test_sizes_follow_the_options(glyphs):
    assert (len(glyphs.train), glyphs.train.classes) == (64, 8)
    assert (len(glyphs.query), len(glyphs.gallery), glyphs.query.classes) == (8, 24, 4)
    assert pixels(glyphs.train).shape == (64, 24, 24)
    assert np.bincount(glyphs.gallery.labels).tolist() == [6] * 4


def test_trained_and_retrieved_characters_are_disjoint(glyphs):
    assert not set(glyphs.train.label_names) & set(glyphs.query.label_names)
    assert glyphs.query.label_names == glyphs.gallery.label_names


def test_a_character_is_queried_in_faces_its_gallery_lacks(glyphs):
    def faces(images):
        return {(image_id.split("/")[0], image_id.split("-", 1)[1]) for image_id in images.ids}

    assert not faces(glyphs.query) & faces(glyphs.gallery)


def test_rendering_is_a_function_of_the_seed(glyphs):
    again, other = load_data("glyphs", **SMALL), load_data("glyphs", **SMALL, seed=1)
    np.testing.assert_array_equal(pixels(again.train), pixels(glyphs.train))
    assert again.query.ids == glyphs.query.ids
    assert other.train.label_names != glyphs.train.label_names


def test_images_of_a_class_are_the_same_whatever_else_is_drawn(glyphs):
    more = load_data("glyphs", classes=12, images_per_class=12, size=24)
    position = [more.train.ids.index(image_id) for image_id in glyphs.train.ids[:8]]
    np.testing.assert_array_equal(pixels(more.train.take(position)), pixels(glyphs.train.take(range(8))))


def test_difficulty_takes_contrast_away_and_adds_noise():
    def spread(difficulty):
        images = pixels(load_data("glyphs", **SMALL, difficulty=difficulty).train).astype(float)
        return np.ptp(images, axis=(1, 2)).mean(), images[:, :2, :2].std(axis=(1, 2)).mean()

    easy, hard = spread(0.0), spread(1.0)
    assert easy[0] > hard[0] and easy[1] < hard[1]


def test_every_image_shows_ink(glyphs):
    assert (np.ptp(pixels(glyphs.train).astype(int), axis=(1, 2)) > 60).all()


def test_rgb_has_colour():
    image = np.asarray(load_data("glyphs", **SMALL, rgb=True).query.image(0)).astype(int)
    assert image.shape == (24, 24, 3) and np.ptp(image.mean(axis=(0, 1))) > 1


def test_no_two_classes_look_alike():
    characters = distinct_characters(tuple(builtin_fonts()))
    assert len(characters) > 500
    drawings = np.stack([clean_drawing(c, faces[0]) for c, faces in characters.items()])
    similarity = drawings @ drawings.T - 2 * np.eye(len(drawings))
    assert similarity.max() < MAX_SIMILARITY
    assert len({"A", "\N{GREEK CAPITAL LETTER ALPHA}", "\N{CYRILLIC CAPITAL LETTER A}"} & set(characters)) == 1
    assert len({"O", "o", "0"} & set(characters)) <= 2


def test_a_font_file_of_yours_adds_its_face(tmp_path):
    font = tmp_path / "Mine.ttf"
    font.write_bytes(builtin_fonts()[4].read_bytes())
    data = load_data("glyphs", **SMALL, fonts=[font])
    assert any(image_id.endswith("-Mine") for image_id in data.train.ids)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"difficulty": 1.5}, "difficulty"),
        ({"classes": 100_000}, "100000 classes asked for"),
        ({"classes": 2}, "at least 3 classes"),
        ({"min_faces": 1}, "min_faces"),
        ({"colour": True}, "no option 'colour'"),
    ],
)
def test_impossible_options_are_refused(options, complaint):
    with pytest.raises(DataError, match=complaint):
        load_data("glyphs", **options)


def test_a_file_that_is_no_font_is_named(tmp_path):
    (tmp_path / "bad.ttf").write_text("no font")
    with pytest.raises(DataError, match=r"bad\.ttf: not a font"):
        load_data("glyphs", fonts=[tmp_path / "bad.ttf"])
