"""What a retrieval experiment needs: images to learn from, queries, a gallery, and the rule to score by."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prunnet.data.images import ImageSet
from prunnet.errors import DataError

Indices = npt.NDArray[np.int64]
METRICS = ("mAP", "mAP@100", "Recall@1", "revisited")


@dataclass(frozen=True)
class Protocol:
    """How a data set's publication scores a ranking; `prunnet.data.answers` reads it.

    `same_set`: query and gallery are one set, and no image is an answer to itself.
    `camera_junk`: gallery images of the query's identity from the query's own camera are ignored.
    `ground_truth`: one dict per query where labels do not tell the answers; lists of gallery indices under `easy`,
    `hard` and `junk` (revisited Oxford and Paris) or under `positives` (GLDv2).
    """

    metric: str = "mAP"
    same_set: bool = False
    camera_junk: bool = False
    ground_truth: list[dict[str, list[int]]] | None = None

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise DataError(f"unknown metric {self.metric!r}: choose one of {', '.join(METRICS)}")


@dataclass(frozen=True)
class RetrievalData:
    """A data set ready for training and evaluation.

    `query` and `gallery` share one labelling; `train` has its own, 0 … classes−1, as a classifier needs it.
    `augmentation` are the arguments of `train_transform` that suit these images (characters must not be mirrored).
    """

    name: str
    train: ImageSet | None
    query: ImageSet
    gallery: ImageSet
    protocol: Protocol
    augmentation: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.query.label_names != self.gallery.label_names:
            raise DataError(f"{self.name}: query and gallery must share label_names")
        if self.protocol.camera_junk and (self.query.cameras is None or self.gallery.cameras is None):
            raise DataError(f"{self.name}: a camera-aware protocol needs the camera of every query and gallery image")
        for part, images in (("query", self.query), ("gallery", self.gallery), ("training", self.train)):
            if images is not None and not len(images):
                raise DataError(f"{self.name}: the {part} set is empty")
        truth = self.protocol.ground_truth
        if truth is not None and len(truth) != len(self.query):
            raise DataError(f"{self.name}: {len(truth)} ground truths for {len(self.query)} queries")

    def take(self, query: Indices, gallery: Indices) -> "RetrievalData":
        """The same data with these queries and gallery images alone; the ground truth follows."""
        protocol, taken = self.protocol, self.gallery.take(gallery)
        if protocol.ground_truth is not None:
            place = {int(old): new for new, old in enumerate(gallery)}
            truth = [
                {key: [place[image] for image in images if image in place] for key, images in lists.items()}
                for lists in (protocol.ground_truth[i] for i in query)
            ]
            protocol = replace(protocol, ground_truth=truth)
        one_set = self.query is self.gallery and np.array_equal(query, gallery)
        asked = taken if one_set else self.query.take(query)
        return replace(self, query=asked, gallery=taken, protocol=protocol)

    def cached(self, limit_bytes: int = 2 * 1024**3) -> "RetrievalData":
        """The same data, decoded into memory as far as `limit_bytes` allow for each set."""
        gallery = self.gallery.cached(limit_bytes)
        return replace(
            self,
            train=None if self.train is None else self.train.cached(limit_bytes),
            query=gallery if self.query is self.gallery else self.query.cached(limit_bytes),
            gallery=gallery,
        )
