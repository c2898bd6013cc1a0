import builtins

import pytest

from prunnet.data import load_data
from prunnet.errors import DataError, MissingExtraError

HEADER = "path,label,split,is_query,is_gallery,camera,bbox\n"
ROWS = [
    "a/1.jpg,cat,train,,,north,",
    "a/2.jpg,dog,train,,,south,1 2 7 9",
    "b/1.jpg,owl,test,1,0,north,",
    "b/2.jpg,owl,test,0,1,south,",
    'b/3.jpg,fox,test,0,1,north,"[0, 0, 5, 6]"',
]
FULL = HEADER + "\n".join(ROWS) + "\n"


@pytest.fixture
def photos(tmp_path, draw, write):
    for row in ROWS:
        draw(tmp_path / row.split(",")[0])

    def manifest(text=FULL):
        return write(tmp_path / "photos.csv", text)

    return manifest


def test_everything_a_manifest_can_say(photos):
    data = load_data(photos())
    assert data.name == "photos"
    assert data.train.label_names == ["cat", "dog"] and data.train.image(1).size == (6, 7)
    assert data.query.label_names == ["fox", "owl"] and data.query.labels.tolist() == [1]
    assert data.gallery.labels.tolist() == [1, 0] and data.gallery.image(1).size == (5, 6)
    assert data.query.cameras.tolist() == [0] and data.gallery.cameras.tolist() == [1, 0]
    assert data.protocol.camera_junk and not data.protocol.same_set
    assert data.gallery.ids == ["b/2.jpg", "b/3.jpg"]


def test_parquet_says_the_same(photos, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "path": [row.split(",")[0] for row in ROWS],
        "label": ["cat", "dog", "owl", "owl", "fox"],
        "split": ["train", "train", "test", "test", "test"],
        "is_query": [None, None, True, False, False],
        "is_gallery": [None, None, False, True, True],
        "camera": [1, 2, 1, 2, 1],
        "bbox": [None, [1.0, 2.0, 7.0, 9.0], None, None, [0.0, 0.0, 5.0, 6.0]],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "photos.parquet")
    read, written = load_data(tmp_path / "photos.parquet"), load_data(photos())
    for part in ("train", "query", "gallery"):
        ours, theirs = getattr(read, part), getattr(written, part)
        assert ours.ids == theirs.ids and ours.labels.tolist() == theirs.labels.tolist()
        assert ours.cameras.tolist() == theirs.cameras.tolist() and ours.pixels.boxes == theirs.pixels.boxes
    assert read.protocol == written.protocol

    parquet.write_table(pyarrow.table({**columns, "split": ["train"] * 4 + ["later"]}), tmp_path / "bad.parquet")
    with pytest.raises(DataError, match=r"bad\.parquet:5: split must be"):
        load_data(tmp_path / "bad.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"bad\.parquet: not a Parquet file"):
        load_data(tmp_path / "bad.parquet")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "photos.parquet").write_bytes(b"")
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'prunnet\[parquet\]'"):
        load_data(tmp_path / "photos.parquet")


def test_without_flags_every_test_image_asks_all_others(photos):
    data = load_data(photos("path,label,split\na/1.jpg,cat,train\nb/1.jpg,owl,validation\nb/2.jpg,owl,validation\n"))
    assert data.query is data.gallery and data.protocol.same_set and not data.protocol.camera_junk
    assert len(data.gallery) == 2


def test_paths_may_be_relative_to_a_root(photos, tmp_path, write):
    photos()
    file = write(tmp_path / "elsewhere" / "m.csv", "path,label,split\nb/1.jpg,owl,test\nb/2.jpg,owl,test\n")
    data = load_data(file, root=tmp_path)
    assert data.train is None and data.gallery.image(0).size == (12, 10)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", r"photos\.csv:1: the file is empty"),
        ("path,class,split\n", r"photos\.csv:1: the header lacks label"),
        ("path,label,split,label\n", r"photos\.csv:1: the header names 'label' twice"),
        ("path,label,split\n", r"photos\.csv: lists no images"),
        ("path,label,split\na,b\n", r"photos\.csv:2: expected 3 fields"),
        ("path,label,split\na,b,test\na,b,dev\n", r"photos\.csv:3: split must be train or test, found 'dev'"),
        ("path,label,split\na,b,test\na,b,val\n", r"photos\.csv:3: split 'val' beside 'test'"),
        ("path,label,split\na,,test\n", r"photos\.csv:2: path and label must not be empty"),
        ("path,label,split\na,b,train\n", r"photos\.csv: has no query images"),
        ("path,label,split,is_query\na,b,test,2\n", r"photos\.csv:2: is_query must be 1 or 0, found '2'"),
        ("path,label,split,is_query,is_gallery\na,b,test,0,0\n", r"photos\.csv:2: a test image must be a query"),
        ("path,label,split,bbox\na,b,test,1 2 3\n", r"photos\.csv:2: bbox must be four numbers"),
        ("path,label,split,bbox\na,b,test,5 0 2 9\n", r"photos\.csv:2: bbox must have left < right"),
        ("path,label,split,camera\na,b,test,1\nb,b,test,\n", r"photos\.csv:3: camera is empty"),
        (
            "path,label,split,is_gallery\na,b,test,1\nb,b,test,0\n",
            r"photos\.csv: 1 images are query and gallery at once",
        ),
    ],
)
def test_mistakes_are_located(photos, text, complaint):
    with pytest.raises(DataError, match=complaint) as caught:
        load_data(photos(text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "photos.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(DataError, match=r"photos\.csv: not a text file"):
        load_data(tmp_path / "photos.csv")
    with pytest.raises(DataError, match=r"missing\.csv: no such file"):
        load_data(tmp_path / "missing.csv")
