import numpy as np
import pytest
from PIL import Image

from prunnet.data import load_data
from prunnet.errors import DataError

NAMES = ["Greek/character01", "Greek/character02", "Tengwar/character01", "Ulog/character01"]
SPLIT = np.array([0, 0, 1, 1])


def arrays():
    label = np.repeat(np.arange(4), 20).astype(np.int16)
    return {
        "label": label,
        "alphabet": np.array([0, 0, 1, 2], np.int8)[label],
        "drawer": np.tile(np.arange(1, 21), 4).astype(np.int8),
        "split": SPLIT[label].astype(np.int8),
        "class_names": np.array(NAMES),
        "alphabet_names": np.array(["Greek", "Tengwar", "Ulog"]),
    }


@pytest.fixture(params=["uint8", "packbits", "folders"])
def omniglot(request, tmp_path):
    ink = np.random.default_rng(0).random((80, 105, 105)) < 0.2
    if request.param == "uint8":
        np.savez(tmp_path / "omniglot_28_uint8.npz", images=ink.astype(np.uint8) * 255, **arrays())
    elif request.param == "packbits":
        np.savez(tmp_path / "omniglot_105_packbits.npz", bits=np.packbits(ink, axis=2), **arrays())
    else:
        for number, drawing in enumerate(ink):
            label, drawer = divmod(number, 20)
            part = "images_evaluation" if SPLIT[label] else "images_background"
            path = tmp_path / part / NAMES[label] / f"{label + 1:04d}_{drawer + 1:02d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(drawing).save(path)
    return request.param, ink, tmp_path


def test_omniglot(omniglot):
    form, ink, root = omniglot
    data = load_data("omniglot", root=root)
    assert data.train.label_names == NAMES[:2] and len(data.train) == 40
    assert data.query.label_names == data.gallery.label_names == NAMES[2:]
    assert np.bincount(data.query.labels).tolist() == [5, 5]
    assert np.bincount(data.gallery.labels).tolist() == [15, 15]
    assert data.augmentation["hflip"] == 0  # characters are not mirror-symmetric
    assert not data.protocol.same_set and data.protocol.metric == "mAP"
    picture = np.asarray(data.query.image(7).convert("L")) > 0
    np.testing.assert_array_equal(picture, ink[60 + 2])  # second test character, third drawer
    if form != "folders":
        assert data.query.ids[7] == "Ulog/character01/03"


def test_omniglot_from_the_file_itself(tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.zeros((80, 8, 8), np.uint8), **arrays())
    assert len(load_data("omniglot", root=tmp_path / "mine.npz").train) == 40


def test_omniglot_thinned(omniglot):
    _, ink, root = omniglot
    data = load_data("omniglot", root=root, every=(2, 1))
    assert data.train.label_names == NAMES[:1] and np.bincount(data.train.labels).tolist() == [20]
    assert data.query.label_names == NAMES[2:] and len(data.gallery) == 30
    data = load_data("omniglot", root=root, every=[1, 2])
    assert len(data.train) == 40 and data.query.label_names == data.gallery.label_names == NAMES[2:3]
    assert set(data.gallery.labels) == {0} and len(data.query) == 5
    np.testing.assert_array_equal(np.asarray(data.query.image(2).convert("L")) > 0, ink[40 + 2])
    with pytest.raises(DataError, match="every takes two whole numbers"):
        load_data("omniglot", root=root, every=(0, 4))


def test_omniglot_malformed(tmp_path, draw):
    with pytest.raises(DataError, match="images_background: no such folder"):
        load_data("omniglot", root=tmp_path)
    draw(tmp_path / "images_background/Greek/character01/first.png")
    with pytest.raises(DataError, match=r"first\.png: expected a name like 0001_01\.png"):
        load_data("omniglot", root=tmp_path)
    (tmp_path / "omniglot_28.npz").write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"omniglot_28\.npz: not Omniglot"):
        load_data("omniglot", root=tmp_path)
