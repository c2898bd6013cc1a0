import numpy as np
import pytest

from prunnet.data import load_data
from prunnet.errors import DataError


@pytest.fixture
def cub(tmp_path, draw, write):
    classes = {
        1: "001.Black_footed_Albatross",
        100: "100.Brown_Pelican",
        101: "101.White_Pelican",
        200: "200.Yellowthroat",
    }
    images, labels, splits, boxes = [], [], [], []
    for number, (label, name) in enumerate([item for item in classes.items() for _ in range(2)], 1):
        path = f"{name}/Bird_{number:04d}_{number}.jpg"
        draw(tmp_path / "images" / path)
        images.append(f"{number} {path}")
        labels.append(f"{number} {label}")
        splits.append(f"{number} {number % 2}")
        boxes.append(f"{number} 2.0 1.0 6.0 8.0")
    write(tmp_path / "images.txt", "\n".join(images) + "\n")
    write(tmp_path / "image_class_labels.txt", "\n".join(labels) + "\n")
    write(tmp_path / "train_test_split.txt", "\n".join(splits) + "\n")
    write(tmp_path / "bounding_boxes.txt", "\n".join(boxes) + "\n")
    write(tmp_path / "classes.txt", "".join(f"{label} {name}\n" for label, name in classes.items()))
    return tmp_path


def test_cub200_by_classes(cub):
    data = load_data("cub200", root=cub)
    assert data.train.label_names == ["001.Black_footed_Albatross", "100.Brown_Pelican"]
    assert data.gallery.label_names == ["101.White_Pelican", "200.Yellowthroat"]
    assert data.query is data.gallery and data.protocol.same_set and data.protocol.metric == "Recall@1"
    assert data.gallery.image(0).size == (12, 10)


def test_cub200_standard_split(cub):
    data = load_data("cub200", root=cub, split="standard")
    assert data.train.classes == data.gallery.classes == 4
    assert [image_id.rsplit("_", 1)[1] for image_id in data.train.ids] == ["1.jpg", "3.jpg", "5.jpg", "7.jpg"]
    assert len(data.gallery) == 4


def test_cub200_cropped(cub):
    assert load_data("cub200", root=cub, crop=True).gallery.image(0).size == (6, 8)


def test_cub200_points_at_the_line(cub, write):
    write(cub / "image_class_labels.txt", "1 1\n2 1\n")
    with pytest.raises(DataError, match=r"images\.txt:3: image 3 is missing from image_class_labels\.txt"):
        load_data("cub200", root=cub)
    write(cub / "image_class_labels.txt", "1 1\n2\n")
    with pytest.raises(DataError, match=r"image_class_labels\.txt:2: expected image class"):
        load_data("cub200", root=cub)
    with pytest.raises(DataError, match="'retrieval' or 'standard'"):
        load_data("cub200", root=cub, split="mine")


@pytest.fixture
def cars(tmp_path, draw):
    savemat = pytest.importorskip("scipy.io").savemat
    fields = ("relative_im_path", "bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "test")
    rows = []
    for number, label in enumerate((1, 98, 99, 99, 196), 1):
        path = f"car_ims/{number:06d}.jpg"
        draw(tmp_path / path)
        rows.append((path, 3, 2, 8, 9, label, 0))
    annotations = np.array([rows], dtype=[(field, object) for field in fields]).reshape(1, -1)
    names = np.array([f"Car {label} 2012" for label in range(1, 197)], dtype=object).reshape(1, -1)
    savemat(tmp_path / "cars_annos.mat", {"annotations": annotations, "class_names": names})
    return tmp_path


def test_cars196(cars):
    data = load_data("cars196", root=cars)
    assert data.train.label_names == ["Car 1 2012", "Car 98 2012"]
    assert data.gallery.label_names == ["Car 196 2012", "Car 99 2012"]
    assert data.gallery.labels.tolist() == [1, 1, 0]
    assert data.protocol.same_set and data.protocol.metric == "Recall@1"
    assert load_data("cars196", root=cars, crop=True).gallery.image(0).size == (6, 8)


def test_cars196_malformed(cars):
    (cars / "car_ims/000003.jpg").unlink()
    with pytest.raises(DataError, match=r"cars_annos\.mat: annotation 3: the image .*000003\.jpg does not exist"):
        load_data("cars196", root=cars)
    (cars / "cars_annos.mat").write_bytes(b"nothing of the kind")
    with pytest.raises(DataError, match=r"cars_annos\.mat: not the annotations"):
        load_data("cars196", root=cars)


@pytest.fixture
def sop(tmp_path, draw, write):
    header = "image_id class_id super_class_id path\n"
    for part, products in (("train", (1, 1, 2)), ("test", (11319, 11319, 11320))):
        lines = []
        for number, product in enumerate(products, 1):
            path = f"bicycle_final/{part}{product}_{number}.JPG"
            draw(tmp_path / path)
            lines.append(f"{number} {product} 1 {path}\n")
        write(tmp_path / f"Ebay_{part}.txt", header + "".join(lines))
    return tmp_path


def test_sop(sop):
    data = load_data("sop", root=sop)
    assert data.train.label_names == ["1", "2"] and data.train.labels.tolist() == [0, 0, 1]
    assert data.gallery.label_names == ["11319", "11320"]
    assert data.query is data.gallery and data.protocol.same_set


def test_sop_wants_its_header(sop, write):
    write(sop / "Ebay_test.txt", "1 11319 1 bicycle_final/test11319_1.JPG\n")
    with pytest.raises(
        DataError, match=r"Ebay_test\.txt:1: the header must be 'image_id class_id super_class_id path'"
    ):
        load_data("sop", root=sop)
    write(sop / "Ebay_test.txt", "image_id class_id super_class_id path\n")
    with pytest.raises(DataError, match=r"Ebay_test\.txt: lists no images"):
        load_data("sop", root=sop)


@pytest.fixture(params=["Img/img", "img"])
def inshop(request, tmp_path, draw, write):
    rows = [
        ("img/WOMEN/Dresses/id_00000002/02_1_front.jpg", "id_00000002", "train"),
        ("img/WOMEN/Dresses/id_00000002/02_2_side.jpg", "id_00000002", "train"),
        ("img/WOMEN/Blouses_Shirts/id_00000001/02_1_front.jpg", "id_00000001", "query"),
        ("img/WOMEN/Blouses_Shirts/id_00000001/02_3_back.jpg", "id_00000001", "gallery"),
        ("img/MEN/Tees_Tanks/id_00000007/01_1_front.jpg", "id_00000007", "gallery"),
    ]
    for path, _, _ in rows:
        draw(tmp_path / request.param / path.removeprefix("img/"))
    lines = "".join(f"{path:80}{item:20}{status}\n" for path, item, status in rows)
    write(tmp_path / "Eval/list_eval_partition.txt", f"{len(rows)}\nimage_name item_id evaluation_status\n{lines}")
    boxes = "".join(f"{path:80}1 1 002 001 008 009\n" for path, _, _ in rows)
    header = "image_name clothes_type pose_type x_1 y_1 x_2 y_2"
    write(tmp_path / "Anno/list_bbox_inshop.txt", f"{len(rows)}\n{header}\n{boxes}")
    return tmp_path


def test_inshop(inshop):
    data = load_data("inshop", root=inshop)
    assert len(data.train) == 2 and data.train.classes == 1
    assert data.query.label_names == ["id_00000001", "id_00000007"] and data.query.labels.tolist() == [0]
    assert data.gallery.labels.tolist() == [0, 1]
    assert data.protocol.metric == "Recall@1" and not data.protocol.same_set
    assert load_data("inshop", root=inshop, crop=True).query.image(0).size == (6, 8)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("image_name item_id evaluation_status", "name item status", r":2: the header must be"),
        (" query\n", " asked\n", r":5: evaluation_status must be train, query or gallery, found 'asked'"),
        (" query\n", " gallery\n", r": lists no query images"),
        ("02_1_front.jpg ", "09_1_front.jpg ", r":3: the image .*09_1_front\.jpg does not exist"),
    ],
)
def test_inshop_points_at_the_line(inshop, old, new, complaint):
    file = inshop / "Eval/list_eval_partition.txt"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(DataError, match=r"list_eval_partition\.txt" + complaint):
        load_data("inshop", root=inshop)
