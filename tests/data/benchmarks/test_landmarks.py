import json
import pickle

import numpy as np
import pytest

from prunnet.data import load_data
from prunnet.errors import DataError


@pytest.fixture
def gldv2(tmp_path, draw, write):
    def image(part, name):
        draw(tmp_path / part / name[0] / name[1] / name[2] / f"{name}.jpg")

    trained = {"6e158a47eb2ca3f6": 142820, "202cd79556f30760": 104169, "3ad87684c99c06e1": 104169}
    for name in trained:
        image("train", name)
    lines = "".join(f'{name},"http://upload.example/{name},1.jpg",{label}\n' for name, label in trained.items())
    write(tmp_path / "train.csv", "id,url,landmark_id\n" + lines)
    write(tmp_path / "train_clean.csv", "landmark_id,images\n104169,202cd79556f30760 3ad87684c99c06e1\n")
    index = {"0000f928e383e1bd": 5, "aaaa1e7e6ecb1100": 7, "bbbb1e7e6ecb1100": 7}
    for name in index:
        image("index", name)
    write(
        tmp_path / "index_image_to_landmark.csv",
        "id,landmark_id\n" + "".join(f"{name},{label}\n" for name, label in index.items()),
    )
    for name in ("e324e0f3e6d9e504", "d9e17c5f3e0c47b3", "ffffe0f3e6d9e504"):
        image("test", name)
    write(
        tmp_path / "retrieval_solution_v2.1.csv",
        "id,images,Usage\n"
        "e324e0f3e6d9e504,bbbb1e7e6ecb1100 aaaa1e7e6ecb1100,Private\n"
        "d9e17c5f3e0c47b3,0000f928e383e1bd,Public\n"
        "ffffe0f3e6d9e504,None,Ignored\n",
    )
    return tmp_path


def test_gldv2(gldv2):
    data = load_data("gldv2", root=gldv2)
    assert data.train.label_names == ["104169"] and len(data.train) == 2
    assert data.query.ids == ["test/e/3/2/e324e0f3e6d9e504.jpg", "test/d/9/e/d9e17c5f3e0c47b3.jpg"]
    assert data.protocol.metric == "mAP@100"
    assert data.protocol.ground_truth == [{"positives": [2, 1]}, {"positives": [0]}]
    assert data.gallery.label_names == ["5", "7"] and data.gallery.labels.tolist() == [0, 1, 1]
    assert data.query.image(1).size == data.gallery.image(2).size == data.train.image(0).size == (12, 10)


def test_gldv2_options(gldv2):
    full = load_data("gldv2", root=gldv2, train="full", usage="Public")
    assert full.train.label_names == ["104169", "142820"] and len(full.query) == 1
    assert load_data("gldv2", root=gldv2, train="none").train is None


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("train_clean.csv", "landmark,images\n1,a\n", r"train_clean\.csv:1: the header lacks landmark_id"),
        ("train_clean.csv", "", r"train_clean\.csv:1: the file is empty"),
        ("train_clean.csv", "landmark_id,images\n", r"train_clean\.csv: lists no images"),
        ("index_image_to_landmark.csv", "id,landmark_id\nabc,1\nabd\n", r"index_image_to_landmark\.csv:3: expected 2"),
        ("retrieval_solution_v2.1.csv", "id,images,Usage\nabc,nope,Public\n", r"_v2\.1\.csv:2: nope is not in index"),
        ("retrieval_solution_v2.1.csv", "id,images,Usage\nabc,,Secret\n", r"_v2\.1\.csv:2: Usage must be"),
        ("retrieval_solution_v2.1.csv", "id,images,Usage\nabc,,Ignored\n", r"gldv2: the query set is empty"),
    ],
)
def test_gldv2_points_at_the_line(gldv2, write, file, text, complaint):
    write(gldv2 / file, text)
    with pytest.raises(DataError, match=complaint):
        load_data("gldv2", root=gldv2)


TRUTH = {
    "imlist": ["all_souls_000001", "all_souls_000002", "hertford_000003", "oxford_000004"],
    "qimlist": ["all_souls_000013", "hertford_000015"],
    "gnd": [
        {"bbx": [2.0, 1.0, 8.0, 9.0], "easy": [0], "hard": [1], "junk": [3]},
        {"bbx": [0.0, 0.0, 5.0, 5.0], "easy": [], "hard": [2], "junk": []},
    ],
}


def with_arrays(dtype):
    gnd = [
        {key: np.array(value, dtype if key != "bbx" else float) for key, value in entry.items()}
        for entry in TRUTH["gnd"]
    ]
    return {**TRUTH, "gnd": gnd}


@pytest.fixture(params=["roxford5k", "rparis6k"])
def revisited(request, tmp_path, draw):
    for name in TRUTH["imlist"] + TRUTH["qimlist"]:
        draw(tmp_path / "jpg" / f"{name}.jpg")
    return request.param, tmp_path


@pytest.mark.parametrize("form", ["json", "pickle 2", "pickle 4", "pickle 5", "pickled lists"])
def test_revisited(revisited, form):
    name, root = revisited
    if form == "json":
        (root / f"gnd_{name}.json").write_text(json.dumps(TRUTH))
    else:
        content = TRUTH if form == "pickled lists" else with_arrays(np.int64)
        protocol = 4 if form == "pickled lists" else int(form[-1])
        (root / f"gnd_{name}.pkl").write_bytes(pickle.dumps(content, protocol))
    data = load_data(name, root=root)
    assert data.train is None and data.protocol.metric == "revisited"
    assert data.protocol.ground_truth == [{k: v for k, v in e.items() if k != "bbx"} for e in TRUTH["gnd"]]
    assert len(data.gallery) == 4 and data.query.ids[0] == "jpg/all_souls_000013.jpg"
    assert data.query.image(0).size == (6, 8) and data.gallery.image(0).size == (12, 10)


def test_revisited_malformed(revisited):
    name, root = revisited
    with pytest.raises(DataError, match=rf"gnd_{name}\.pkl: no such file"):
        load_data(name, root=root)
    stored = root / f"gnd_{name}.json"
    stored.write_text('{"imlist": [],\n "qimlist": ]')
    with pytest.raises(DataError, match=rf"gnd_{name}\.json:2: not JSON"):
        load_data(name, root=root)
    stored.write_text(json.dumps({**TRUTH, "gnd": TRUTH["gnd"][:1]}))
    with pytest.raises(DataError, match="2 queries but 1 ground truths"):
        load_data(name, root=root)
    wrong = [{**TRUTH["gnd"][0], "easy": [4]}, TRUTH["gnd"][1]]
    stored.write_text(json.dumps({**TRUTH, "gnd": wrong}))
    with pytest.raises(DataError, match="an index outside the 4 images"):
        load_data(name, root=root)
    stored.write_text(json.dumps(TRUTH))
    (root / "jpg" / "hertford_000015.jpg").unlink()
    with pytest.raises(DataError, match=r"hertford_000015\.jpg does not exist"):
        load_data(name, root=root)
