"""Landmarks: Google Landmarks v2 (mAP@100), and the revisited Oxford and Paris (mAP by difficulty)."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from prunnet.data.benchmarks.plain_pickle import read_plain_pickle
from prunnet.data.image_files import ImageFile, retrieval_data
from prunnet.data.images import Box
from prunnet.data.lists import read_csv, require_file, require_rows
from prunnet.data.retrieval import Protocol, RetrievalData
from prunnet.errors import DataError


def load_gldv2(root: Path, train: str = "clean", usage: str = "all") -> RetrievalData:
    """train/, index/ and test/ hold images as a/b/c/abc….jpg; the index is the gallery, test images are queries.

    `train="clean"` reads train_clean.csv (1,580,470 images, 81,313 landmarks), `"full"` train.csv, `"none"` trains on
    nothing. Queries and answers come from retrieval_solution_v2.1.csv, where `usage` picks "Public" (379 queries),
    "Private" (750) or "all" of them; ignored queries never count. Whether the images exist is left to `prunnet data
    check`, since there are millions.
    """
    if train not in ("clean", "full", "none") or usage not in ("all", "Public", "Private"):
        raise DataError("gldv2: train is 'clean', 'full' or 'none'; usage is 'all', 'Public' or 'Private'")

    file = require_file(root / "index_image_to_landmark.csv", "gldv2")
    rows = require_rows(read_csv(file, ("id", "landmark_id")), file)
    gallery = [ImageFile(_gldv2_image(root, "index", row["id"]), row["landmark_id"]) for row in rows]
    place = {row["id"]: position for position, row in enumerate(rows)}

    file = require_file(root / "retrieval_solution_v2.1.csv", "gldv2")
    query, truth = [], []
    for row in require_rows(read_csv(file, ("id", "images", "Usage")), file):
        if row["Usage"] not in ("Public", "Private", "Ignored"):
            raise row.error(f"Usage must be Public, Private or Ignored, found {row['Usage']!r}")
        if row["Usage"] == "Ignored" or usage not in ("all", row["Usage"]):
            continue
        unknown = next((image for image in row["images"].split() if image not in place), None)
        if unknown is not None:
            raise row.error(f"{unknown} is not in index_image_to_landmark.csv")
        query.append(ImageFile(_gldv2_image(root, "test", row["id"]), None))
        truth.append({"positives": [place[image] for image in row["images"].split()]})
    protocol = Protocol(metric="mAP@100", ground_truth=truth)
    return retrieval_data("gldv2", root, _gldv2_train(root, train), query, gallery, protocol)


def _gldv2_train(root: Path, which: str) -> list[ImageFile] | None:
    if which == "none":
        return None
    if which == "full":
        file = require_file(root / "train.csv", "gldv2")
        rows = require_rows(read_csv(file, ("id", "landmark_id")), file)
        return [ImageFile(_gldv2_image(root, "train", row["id"]), row["landmark_id"]) for row in rows]
    file = require_file(root / "train_clean.csv", "gldv2")
    return [
        ImageFile(_gldv2_image(root, "train", image), row["landmark_id"])
        for row in require_rows(read_csv(file, ("landmark_id", "images")), file)
        for image in row["images"].split()
    ]


def _gldv2_image(root: Path, part: str, image: str) -> str:
    return os.path.join(root, part, *image[:3], f"{image}.jpg")  # noqa: PTH118 (millions of Path objects take minutes)


def load_roxford5k(root: Path) -> RetrievalData:
    """Revisited Oxford: gnd_roxford5k.json or .pkl, and jpg/."""
    return _load_revisited(root, "roxford5k")


def load_rparis6k(root: Path) -> RetrievalData:
    """Revisited Paris: gnd_rparis6k.json or .pkl, and jpg/."""
    return _load_revisited(root, "rparis6k")


def _load_revisited(root: Path, name: str) -> RetrievalData:
    """jpg/ and the ground truth gnd_<name>.json, or gnd_<name>.pkl as published; queries are cut to their box."""
    stored = root / f"gnd_{name}.json"
    if stored.is_file():
        try:
            content = json.loads(stored.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise DataError.at(stored, error.lineno, f"not JSON ({error.msg})") from None
    else:
        stored = require_file(root / f"gnd_{name}.pkl", name)
        content = read_plain_pickle(stored)
    try:
        database, asked, truth = list(content["imlist"]), list(content["qimlist"]), list(content["gnd"])
        boxes = [_numbers(entry["bbx"], 4) for entry in truth]
        answers = [
            {level: _indices(entry[level], len(database)) for level in ("easy", "hard", "junk")} for entry in truth
        ]
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{stored}: not the ground truth of {name} ({type(error).__name__}: {error})") from None
    if len(asked) != len(truth):
        raise DataError(f"{stored}: {len(asked)} queries but {len(truth)} ground truths")

    def image_file(image: str, box: Box | None) -> ImageFile:
        path = root / "jpg" / f"{image}.jpg"
        if not path.is_file():
            raise DataError(f"{stored}: the image {path} does not exist")
        return ImageFile(path, None, box=box)

    query = [image_file(image, box) for image, box in zip(asked, boxes, strict=True)]
    gallery = [image_file(image, None) for image in database]
    protocol = Protocol(metric="revisited", ground_truth=answers)
    return retrieval_data(name, root, None, query, gallery, protocol)


def _indices(values: Any, count: int) -> list[int]:
    indices = [int(value) for value in np.asarray(values).ravel()]
    if any(not 0 <= index < count for index in indices):
        raise ValueError(f"an index outside the {count} images of imlist")
    return indices


def _numbers(values: Any, count: int) -> Any:
    numbers = tuple(float(value) for value in np.asarray(values).ravel())
    if len(numbers) != count:
        raise ValueError(f"bbx has {len(numbers)} numbers")
    return numbers
