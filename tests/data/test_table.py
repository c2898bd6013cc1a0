"""Images listed in a table, or stored in it."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from prunnet.data import UNLABELLED
from prunnet.data.images import ImageSet
from prunnet.data.table import is_table, load_table
from prunnet.errors import DataError, UnreadableImageError

COUNT = 100


@pytest.fixture
def files(tmp_path, draw):
    return [draw(tmp_path / "photos" / f"{number}.png", (4, 4)) for number in range(COUNT)]


def stored(files: list[Path], file: Path, group: int = 40, **columns) -> Path:
    """The pictures of `files` in one Parquet file."""
    table = pyarrow.table({"image": [path.read_bytes() for path in files], **columns})
    parquet.write_table(table, file, row_group_size=group)
    return file


def same_pictures(images: ImageSet, files: list[Path], order=range(COUNT)) -> bool:
    expected = load_table([_listing(files)])
    return all(np.array_equal(images.image(place), expected.image(place)) for place in order)


def _listing(files: list[Path]) -> Path:
    file = files[0].parent.parent / "listing.csv"
    file.write_text("path\n" + "".join(f"photos/{path.name}\n" for path in files))
    return file


@pytest.mark.parametrize("group", [1, 7, 33, COUNT])
def test_stored_pictures_are_those_of_the_files_in_any_order(files, tmp_path, group):
    images = load_table([stored(files, tmp_path / "photos.parquet", group)])
    orders = [range(COUNT), range(COUNT - 1, -1, -9), np.random.default_rng(0).permutation(COUNT), (0, 99, 0, 98, 99)]
    for order in orders:
        assert same_pictures(images, files, order)
    assert images.ids[:2] == ["photos/1", "photos/2"] and set(images.labels) == {UNLABELLED}
    part = pickle.loads(pickle.dumps(images.take([98, 3, 4])))
    assert np.array_equal(part.image(0), images.image(98)) and part.ids == ["photos/99", "photos/4", "photos/5"]


def test_structs_labels_ids_and_several_files(files, tmp_path):
    structs = [{"bytes": path.read_bytes(), "path": path.name} for path in files]
    table = pyarrow.table({"image": structs, "label": [None, *range(1, COUNT)], "id": [f"x{n}" for n in range(COUNT)]})
    shards = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    parquet.write_table(table[:60], shards[0])
    parquet.write_table(table[60:], shards[1])
    images = load_table(shards)
    assert same_pictures(images, files) and images.ids == [f"x{number}" for number in range(COUNT)]
    assert images.label_names[:2] == ["1", "2"] and images.labels[[0, 1, 99]].tolist() == [UNLABELLED, 0, 98]
    assert images.path(0) is None


def test_a_table_of_paths_says_what_a_manifest_does_without_a_split(files, tmp_path, write):
    columns = {"path": ["photos/0.png", "photos/1.png"], "label": ["a", None], "bbox": [None, [1, 1, 3, 4]]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    write(tmp_path / "t.csv", "path,label,bbox\nphotos/0.png,a,\nphotos/1.png,,1 1 3 4\n")
    for file in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        images = load_table([file])
        assert is_table(file) and images.ids == columns["path"] and images.labels.tolist() == [0, UNLABELLED]
        assert images.image(1).size == (2, 3) and images.path(0) == files[0]
    elsewhere = write(tmp_path / "lists" / "t.csv", "path\nphotos/0.png\n")
    assert load_table([elsewhere], tmp_path).image(0).size == (4, 4)
    assert not is_table(write(tmp_path / "m.csv", "path,label,split\n"))


def test_what_is_no_picture_is_named_with_its_row(files, tmp_path):
    table = pyarrow.table({"image": [files[0].read_bytes(), b"no picture", None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    images = load_table([tmp_path / "t.parquet"])
    for row, complaint in ((1, r"t\.parquet:2: cannot be read as an image"), (2, r"t\.parquet:3: there is no picture")):
        with pytest.raises(UnreadableImageError, match=complaint):
            images.image(row)
    assert images.image(0).size == (4, 4)


def test_a_file_that_was_written_again_is_read_again(files, tmp_path):
    first = load_table([stored(files[:2], tmp_path / "t.parquet")]).image(0)
    second = load_table([stored(files[1:4], tmp_path / "t.parquet")]).image(0)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"image": ["a.png"]}, "the header lacks path"),
        ({"path": ["a.png", "a.png"]}, r"'a\.png' is there twice; a column id tells images apart"),
        ({"path": ["a.png", None]}, r"t\.parquet:2: path must not be empty"),
        ({"path": pyarrow.array([], pyarrow.string())}, "lists no images"),
    ],
)
def test_complaints(tmp_path, columns, complaint):
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=complaint):
        load_table([tmp_path / "t.parquet"])


def test_a_damaged_or_absent_file_is_one_line(files, tmp_path):
    file = stored(files, tmp_path / "t.parquet")
    images, content = load_table([file]), bytearray(file.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"t\.parquet: not a Parquet file, or damaged") as caught:
        images.image(0)
    assert "\n" not in str(caught.value)
    file.unlink()
    with pytest.raises(DataError, match=r"t\.parquet: no such file"):
        images.image(0)
