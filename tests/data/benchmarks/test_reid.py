import pytest

from prunnet.data import load_data
from prunnet.errors import DataError


@pytest.fixture
def market(tmp_path, draw):
    names = {
        "bounding_box_train": ["0002_c1s1_000451_03.jpg", "0002_c2s1_000301_01.jpg", "0007_c3s3_077419_03.jpg"],
        "query": ["0001_c1s1_001051_00.jpg", "0003_c4s6_015641_00.jpg"],
        "bounding_box_test": [
            "-1_c1s1_000401_03.jpg",
            "0000_c1s1_000151_01.jpg",
            "0001_c2s1_000976_01.jpg",
            "0003_c1s6_015971_02.jpg",
        ],
    }
    for folder, files in names.items():
        for name in files:
            draw(tmp_path / folder / name)
    (tmp_path / "query" / "Thumbs.db").write_bytes(b"")  # the published archive has them
    return tmp_path


def test_market1501(market):
    data = load_data("market1501", root=market)
    assert data.train.label_names == ["0002", "0007"] and data.train.labels.tolist() == [0, 0, 1]
    assert data.train.cameras.tolist() == [1, 2, 3]
    assert data.query.label_names == ["0000", "0001", "0003"] and data.query.labels.tolist() == [1, 2]
    assert data.query.cameras.tolist() == [1, 4]
    assert data.gallery.labels.tolist() == [0, 1, 2]  # the distractor stays, the junk image does not
    assert data.protocol.metric == "mAP" and data.protocol.camera_junk and not data.protocol.same_set
    assert data.gallery.ids[0] == "bounding_box_test/0000_c1s1_000151_01.jpg"
    assert data.gallery.image(0).size == (12, 10)


def test_market1501_names_a_foreign_file(market, draw):
    draw(market / "query" / "holiday.jpg")
    with pytest.raises(DataError, match=r"query/holiday\.jpg: the name does not tell"):
        load_data("market1501", root=market)


def test_market1501_without_a_folder(market):
    for path in (market / "query").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="query: holds no images"):
        load_data("market1501", root=market)
    (market / "query").rmdir()
    with pytest.raises(DataError, match="query: no such folder"):
        load_data("market1501", root=market)


@pytest.fixture
def veri(tmp_path, draw, write):
    names = {
        "train": ["0001_c001_00016450_0.jpg", "0004_c002_00085885_0.jpg"],
        "query": ["0002_c002_00030600_0.jpg", "0005_c003_00077625_0.jpg"],
        "test": ["0002_c003_00030670_0.jpg", "0005_c002_00077650_0.jpg", "0005_c003_00077655_0.jpg"],
    }
    for part, files in names.items():
        for name in files:
            draw(tmp_path / f"image_{part}" / name)
        write(tmp_path / f"name_{part}.txt", "\n".join(files) + "\n")
    return tmp_path


@pytest.mark.parametrize("listed", [True, False])
def test_veri776(veri, listed):
    if not listed:
        for file in veri.glob("name_*.txt"):
            file.unlink()
    data = load_data("veri776", root=veri)
    assert data.train.label_names == ["0001", "0004"]
    assert data.query.label_names == ["0002", "0005"] and data.query.cameras.tolist() == [2, 3]
    assert data.gallery.labels.tolist() == [0, 1, 1] and data.gallery.cameras.tolist() == [3, 2, 3]
    assert data.protocol.camera_junk and data.protocol.metric == "mAP"


def test_veri776_points_at_the_line(veri, write):
    write(veri / "name_query.txt", "0002_c002_00030600_0.jpg\n0009_c002_00030600_0.jpg\n")
    with pytest.raises(DataError, match=r"name_query\.txt:2: the image .*0009_c002.* does not exist"):
        load_data("veri776", root=veri)
    write(veri / "name_query.txt", "0002_c002_00030600_0.jpg\n\nnonsense\n")
    with pytest.raises(DataError, match=r"name_query\.txt:3: expected a name like"):
        load_data("veri776", root=veri)
    write(veri / "name_query.txt", "\n")
    with pytest.raises(DataError, match=r"name_query\.txt: lists no images"):
        load_data("veri776", root=veri)


@pytest.fixture(params=["train test", "mask_train_v2 mask_test_v2"])
def msmt(request, tmp_path, draw, write):
    train, test = request.param.split()
    lists = {
        ("train", train): ["0000/0000_000_01_0303morning_0015_0.jpg 0", "0001/0001_000_05_0303noon_0015_1.jpg 1"],
        ("val", train): ["0000/0000_001_14_0303morning_0031_0.jpg 0"],
        ("query", test): ["0000/0000_000_02_0303morning_0015_0.jpg 0"],
        ("gallery", test): ["0000/0000_002_03_0303noon_0015_0.jpg 0", "0010/0010_000_02_0303noon_0001_0.jpg 10"],
    }
    for (part, folder), lines in lists.items():
        for line in lines:
            draw(tmp_path / folder / line.split()[0])
        write(tmp_path / f"list_{part}.txt", "\n".join(lines) + "\n")
    return tmp_path


def test_msmt17(msmt):
    data = load_data("msmt17", root=msmt)
    assert len(data.train) == 3 and data.train.classes == 2  # list_train and list_val together
    assert data.train.cameras.tolist() == [1, 5, 14]
    assert [name.rpartition("/")[2] for name in data.query.label_names] == ["0", "10"]
    assert not set(data.train.label_names) & set(data.query.label_names)  # both count from 0, and are other people
    assert data.query.cameras.tolist() == [2] and data.gallery.labels.tolist() == [0, 1]
    assert data.protocol.camera_junk


def test_msmt17_points_at_the_line(msmt, write):
    write(msmt / "list_query.txt", "0000/0000_000_02_0303morning_0015_0.jpg\n")
    with pytest.raises(DataError, match=r"list_query\.txt:1: expected path identity"):
        load_data("msmt17", root=msmt)
    write(msmt / "list_query.txt", "0000/0000_000_02_0303morning_0015_0.jpg first\n")
    with pytest.raises(DataError, match=r"list_query\.txt:1: identity must be a whole number, found 'first'"):
        load_data("msmt17", root=msmt)
    (msmt / "list_val.txt").unlink()
    with pytest.raises(DataError, match=r"list_val\.txt: no such file"):
        load_data("msmt17", root=msmt)
