import pytest

from prunnet.data import load_data
from prunnet.errors import DataError


def fill(root, draw, classes="abcdefgh", images=3):
    for label in classes:
        for number in range(images):
            draw(root / label / f"{number}.png")


def test_classes_are_held_out_by_name(tmp_path, draw):
    fill(tmp_path, draw)
    data = load_data(tmp_path)
    assert data.train.classes == 6 and data.gallery.classes == 2 and data.query is data.gallery
    assert not set(data.train.label_names) & set(data.gallery.label_names)
    assert data.protocol.same_set and len(data.train) + len(data.gallery) == 24

    draw(tmp_path / "a" / "new" / "extra.JPEG")
    draw(tmp_path / "a" / "._extra.jpg")
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    again = load_data(tmp_path)
    assert again.gallery.label_names == data.gallery.label_names
    assert len(again.train) + len(again.gallery) == 25
    splits = {tuple(load_data(tmp_path, seed=seed).gallery.label_names) for seed in range(6)}
    assert len(splits) > 1


def test_a_class_of_one_image_trains(tmp_path, draw):
    fill(tmp_path, draw)
    fill(tmp_path, draw, classes="xyz", images=1)
    data = load_data(tmp_path, test_share=0.9)
    assert {"x", "y", "z"} <= set(data.train.label_names)


def test_train_and_test_folders(tmp_path, draw):
    fill(tmp_path / "train", draw, "abc")
    fill(tmp_path / "test", draw, "de")
    data = load_data(tmp_path)
    assert data.train.label_names == ["a", "b", "c"] and data.gallery.label_names == ["d", "e"]
    assert data.protocol.same_set


def test_query_and_gallery_folders(tmp_path, draw):
    fill(tmp_path / "query", draw, "de", 1)
    fill(tmp_path / "gallery", draw, "def", 2)
    data = load_data(tmp_path, metric="Recall@1")
    assert data.train is None and not data.protocol.same_set and data.protocol.metric == "Recall@1"
    assert data.query.label_names == ["d", "e", "f"] and data.query.labels.tolist() == [0, 1]


def test_what_cannot_be_split_is_refused(tmp_path, draw):
    with pytest.raises(DataError, match="holds no images in a folder per class"):
        load_data(tmp_path)
    fill(tmp_path, draw, "abc")
    with pytest.raises(DataError, match="3 classes with two images or more are too few"):
        load_data(tmp_path)
    fill(tmp_path / "query", draw, "a")
    with pytest.raises(DataError, match="has query; a split needs"):
        load_data(tmp_path)
    with pytest.raises(DataError, match="test_share"):
        load_data(tmp_path, test_share=1)
