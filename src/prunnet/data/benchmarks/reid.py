"""Re-identification across cameras: Market-1501, MSMT17 and VeRi-776.

All three score by mAP and ignore, for each query, the gallery images of its identity taken by its own camera.
"""

import re
from pathlib import Path

from prunnet.data.image_files import ImageFile, retrieval_data
from prunnet.data.lists import list_images, read_list, require_file, require_folder, require_rows
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.errors import DataError

PROTOCOL = Protocol(metric="mAP", camera_junk=True)

MARKET_NAME = re.compile(r"(?P<identity>-1|\d{4})_c(?P<camera>\d+)s\d+_\d+_\d+")
VERI_NAME = re.compile(r"(?P<identity>\d{4})_c(?P<camera>\d{3})_\d+_\d+")
MSMT_NAME = re.compile(r"\d{4}_\d{3}_(?P<camera>\d{2})_.+")


def load_market1501(root: Path) -> RetrievalData:
    """Names as in 0002_c1s1_000451_03.jpg: identity 2, camera 1.

    Identity 0000 marks distractors, which stay in the gallery as a class nobody asks for. Identity −1 marks junk,
    which the evaluation ignores wherever it ranks, so it is left out here.
    """

    def read(folder: str) -> list[ImageFile]:
        image_files = _by_name(root / folder, MARKET_NAME, "market1501")
        return [image_file for image_file in image_files if image_file.label != "-1"]

    train, query, gallery = read("bounding_box_train"), read("query"), read("bounding_box_test")
    return retrieval_data("market1501", root, train, query, gallery, PROTOCOL)


def load_veri776(root: Path) -> RetrievalData:
    """Names as in 0001_c001_00016450_0.jpg: vehicle 1, camera 1; name_*.txt list the images where they are present."""

    def read(part: str) -> list[ImageFile]:
        folder, listed = root / f"image_{part}", root / f"name_{part}.txt"
        if not listed.is_file():
            return _by_name(folder, VERI_NAME, "veri776")
        image_files = []
        for row in require_rows(read_list(listed, ("name",)), listed):
            match = VERI_NAME.match(row["name"])
            if match is None:
                raise row.error(f"expected a name like 0001_c001_00016450_0.jpg, found {row['name']!r}")
            image_files.append(ImageFile(row.image(folder / row["name"]), match["identity"], int(match["camera"])))
        return image_files

    return retrieval_data("veri776", root, read("train"), read("query"), read("test"), PROTOCOL)


def load_msmt17(root: Path) -> RetrievalData:
    """list_*.txt hold `0000/0000_000_01_0303morning_0015_0.jpg 0`: camera 1, identity 0.

    Training takes list_train and list_val together (32,621 images, 1,041 identities). Identities of the training
    lists and of the test lists are numbered apart. Folders are train/ and test/ (V1) or mask_train_v2/ and
    mask_test_v2/ (V2).
    """

    def folder(part: str) -> Path:
        masked = root / f"mask_{part}_v2"
        return masked if masked.is_dir() else require_folder(root / part, "msmt17")

    def read(part: str, images: Path) -> list[ImageFile]:
        listed = require_file(root / f"list_{part}.txt", "msmt17")
        image_files = []
        for row in require_rows(read_list(listed, ("path", "identity")), listed):
            match = MSMT_NAME.match(Path(row["path"]).name)
            if match is None:
                raise row.error(f"expected a name like 0000_000_01_0303morning_0015_0.jpg, found {row['path']!r}")
            identity = f"{images.name}/{row.integer('identity')}"
            image_files.append(ImageFile(row.image(images / row["path"]), identity, int(match["camera"])))
        return image_files

    train, test = folder("train"), folder("test")
    trained = read("train", train) + read("val", train)
    return retrieval_data("msmt17", root, trained, read("query", test), read("gallery", test), PROTOCOL)


def _by_name(folder: Path, pattern: re.Pattern[str], dataset: str) -> list[ImageFile]:
    image_files = []
    for path in list_images(require_folder(folder, dataset)):
        match = pattern.match(path.name)
        if match is None:
            raise DataError(f"{path}: the name does not tell identity and camera as {dataset} names do")
        image_files.append(ImageFile(path, match["identity"], int(match["camera"])))
    if not image_files:
        raise DataError(f"{folder}: holds no images")
    return image_files
