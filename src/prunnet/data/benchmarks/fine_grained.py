"""Products and fine-grained classes, scored by Recall@1: CUB-200-2011, Cars-196, Stanford Online Products, In-shop."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from prunnet.data.image_files import ImageFile, retrieval_data
from prunnet.data.images import Box
from prunnet.data.lists import Row, read_list, require_file, require_rows
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.errors import DataError, MissingExtraError

ONE_SET = Protocol(metric="Recall@1", same_set=True)


def load_cub200(root: Path, split: str = "retrieval", crop: bool = False) -> RetrievalData:
    """`split="retrieval"`: classes 1–100 train, 101–200 are retrieved.

    `split="standard"`, the paper's: train_test_split.txt, 5,994 and 5,794 images of all 200 classes. `crop` cuts
    images to bounding_boxes.txt.
    """
    if split not in ("retrieval", "standard"):
        raise DataError(f"cub200: split must be 'retrieval' or 'standard', not {split!r}")

    def table(name: str, columns: Sequence[str]) -> dict[str, Row]:
        file = require_file(root / name, "cub200")
        return {row["image"]: row for row in require_rows(read_list(file, ("image", *columns)), file)}

    images = table("images.txt", ("path",))
    labels = table("image_class_labels.txt", ("class",))
    training = table("train_test_split.txt", ("is_training",)) if split == "standard" else None
    boxes = table("bounding_boxes.txt", ("x", "y", "width", "height")) if crop else None
    classes_file = require_file(root / "classes.txt", "cub200")
    names = {row["class"]: row["name"] for row in read_list(classes_file, ("class", "name"))}

    train: list[ImageFile] = []
    test: list[ImageFile] = []
    for image, row in images.items():
        label = _entry(labels, image, row, "image_class_labels.txt")
        if label["class"] not in names:
            raise label.error(f"class {label['class']} is not in classes.txt")
        box: Box | None = None
        if boxes is not None:
            x, y, width, height = _entry(boxes, image, row, "bounding_boxes.txt").numbers(("x", "y", "width", "height"))
            box = (x, y, x + width, y + height)
        image_file = ImageFile(row.image(root / "images" / row["path"]), names[label["class"]], box=box)
        if training is None:
            trained = label.integer("class") <= 100
        else:
            trained = _entry(training, image, row, "train_test_split.txt").integer("is_training") == 1
        (train if trained else test).append(image_file)
    return retrieval_data("cub200", root, train, test, test, ONE_SET)


def _entry(table: dict[str, Row], image: str, row: Row, file: str) -> Row:
    if image not in table:
        raise row.error(f"image {image} is missing from {file}")
    return table[image]


def load_cars196(root: Path, crop: bool = False) -> RetrievalData:
    """cars_annos.mat and car_ims/: classes 1–98 train, 99–196 are retrieved. `crop` cuts images to their box."""
    try:
        from scipy.io import loadmat  # type: ignore[import-untyped]
        from scipy.io.matlab import MatReadError  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("scipy", "matlab", "Reading cars_annos.mat of Cars-196") from None

    file = require_file(root / "cars_annos.mat", "cars196")
    try:
        content: dict[str, Any] = loadmat(file, squeeze_me=True)
        annotations, class_names = content["annotations"], [str(name) for name in content["class_names"]]
        columns = [annotations[name] for name in ("relative_im_path", "class", *_CARS_BOX)]
    except (MatReadError, KeyError, ValueError, TypeError, OSError) as error:
        raise DataError(f"{file}: not the annotations of Cars-196 ({error})") from None
    train: list[ImageFile] = []
    test: list[ImageFile] = []
    for number, (path, label, *box) in enumerate(zip(*columns, strict=True), 1):
        image = root / str(path)
        if not image.is_file():
            raise DataError(f"{file}: annotation {number}: the image {image} does not exist")
        if not 1 <= int(label) <= len(class_names):
            raise DataError(
                f"{file}: annotation {number}: class {int(label)} is not among the {len(class_names)} class names"
            )
        x1, y1, x2, y2 = (float(edge) for edge in box)
        bounds = (x1 - 1, y1 - 1, x2, y2) if crop else None  # counted from 1
        image_file = ImageFile(image, class_names[int(label) - 1], box=bounds)
        (train if int(label) <= 98 else test).append(image_file)
    return retrieval_data("cars196", root, train, test, test, ONE_SET)


_CARS_BOX = ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2")


def load_sop(root: Path) -> RetrievalData:
    """Ebay_train.txt (11,318 products) and Ebay_test.txt (11,316): `image_id class_id super_class_id path`."""

    def read(name: str) -> list[ImageFile]:
        file = require_file(root / name, "sop")
        rows = read_list(file, ("image_id", "class_id", "super_class_id", "path"), header=True)
        return [ImageFile(row.image(root / row["path"]), row["class_id"]) for row in require_rows(rows, file)]

    test = read("Ebay_test.txt")
    return retrieval_data("sop", root, read("Ebay_train.txt"), test, test, ONE_SET)


def load_inshop(root: Path, crop: bool = False) -> RetrievalData:
    """Eval/list_eval_partition.txt: a count, `image_name item_id evaluation_status`, then a line for each image.

    Images are in img/, or in Img/img/ as unpacked. `crop` cuts them to Anno/list_bbox_inshop.txt.
    """
    file = _first_file(root, ("Eval/list_eval_partition.txt", "list_eval_partition.txt"))
    images = root / "Img" if (root / "Img" / "img").is_dir() else root
    box = _inshop_boxes(root) if crop else lambda _: None
    parts: dict[str, list[ImageFile]] = {"train": [], "query": [], "gallery": []}
    rows = read_list(file, ("image_name", "item_id", "evaluation_status"), skip=1, header=True)
    for row in require_rows(rows, file):
        if row["evaluation_status"] not in parts:
            raise row.error(f"evaluation_status must be train, query or gallery, found {row['evaluation_status']!r}")
        image_file = ImageFile(row.image(images / row["image_name"]), row["item_id"], box=box(row))
        parts[row["evaluation_status"]].append(image_file)
    for part, image_files in parts.items():
        if not image_files:
            raise DataError(f"{file}: lists no {part} images")
    return retrieval_data("inshop", root, parts["train"], parts["query"], parts["gallery"], Protocol(metric="Recall@1"))


def _inshop_boxes(root: Path) -> Callable[[Row], Box]:
    file = _first_file(root, ("Anno/list_bbox_inshop.txt", "list_bbox_inshop.txt"))
    columns = ("image_name", "clothes_type", "pose_type", "x_1", "y_1", "x_2", "y_2")
    boxes = {row["image_name"]: row for row in read_list(file, columns, skip=1, header=True)}

    def box(row: Row) -> Box:
        x1, y1, x2, y2 = _entry(boxes, row["image_name"], row, file.name).numbers(columns[3:])
        return x1, y1, x2, y2

    return box


def _first_file(root: Path, names: Sequence[str]) -> Path:
    file = next((root / name for name in names if (root / name).is_file()), root / names[0])
    return require_file(file, "inshop")
