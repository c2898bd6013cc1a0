"""What a retrieval experiment needs: images to learn from, queries, a gallery, and the rule which images answer."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from prunnet.data.images import UNLABELLED, ImageSet
from prunnet.errors import DataError

Indices = npt.NDArray[np.int64]
METRICS = ("mAP", "mAP@100", "Recall@1", "revisited")


@dataclass(frozen=True)
class Protocol:
    """How a data set's publication scores a ranking; `answers_of` reads it.

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


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def answers_of(data: RetrievalData) -> "LabelAnswers | ListedAnswers":
    """The rule as the protocol of `data` sets it."""
    rule, query, gallery = data.protocol, data.query, data.gallery
    cameras = None
    if rule.camera_junk and query.cameras is not None and gallery.cameras is not None:
        cameras = query.cameras, gallery.cameras
    if rule.ground_truth is not None:
        return ListedAnswers(rule.ground_truth, len(gallery), cameras, rule.same_set)
    return LabelAnswers(query.labels, gallery.labels, cameras, rule.same_set)


class Answers(ABC):
    """Asked with indices of queries and of gallery images, which broadcast against each other."""

    def __init__(self, queries: int, gallery: int, cameras: tuple[Ints, Ints] | None, same_set: bool) -> None:
        if same_set and queries != gallery:
            raise DataError(f"one set for both, yet {queries} queries and {gallery} gallery images")
        self.queries, self.gallery, self.cameras, self.same_set = queries, gallery, cameras, same_set

    @abstractmethod
    def matches(self, queries: Ints, gallery: Ints) -> Flags:
        """Which images belong together, before any is ignored."""

    @abstractmethod
    def counts(self) -> Ints:
        """How many gallery images answer each query."""

    def right(self, queries: Ints, gallery: Ints) -> Flags:
        """Which gallery images answer which queries."""
        return self.matches(queries, gallery) & ~self.ignored(queries, gallery)

    def ignored(self, queries: Ints, gallery: Ints) -> Flags:
        """Which gallery images a ranking is read without."""
        ignored = np.zeros(np.broadcast_shapes(queries.shape, gallery.shape), dtype=np.bool_)
        if self.same_set:
            ignored |= queries == gallery
        if self.cameras is not None:
            own_camera = self.cameras[0][queries] == self.cameras[1][gallery]
            ignored |= own_camera & self.matches(queries, gallery)
        return ignored


class LabelAnswers(Answers):
    """Matches are images of one label."""

    def __init__(
        self, query: Ints, gallery: Ints, cameras: tuple[Ints, Ints] | None = None, same_set: bool = False
    ) -> None:
        super().__init__(len(query), len(gallery), cameras, same_set)
        if same_set and not np.array_equal(query, gallery):
            raise DataError("one set for both, yet query and gallery images have different labels")
        self.query_labels, self.gallery_labels = query, gallery

    def matches(self, queries: Ints, gallery: Ints) -> Flags:
        labels = self.query_labels[queries]
        matches: Flags = (labels == self.gallery_labels[gallery]) & (labels != UNLABELLED)
        return matches

    def counts(self) -> Ints:
        counts = _occurrences(self.query_labels, self.gallery_labels)
        if self.cameras is not None:  # among the ignored is the query itself, if it is in the gallery
            _, camera = np.unique(np.concatenate(self.cameras), return_inverse=True)
            both = np.concatenate([self.query_labels, self.gallery_labels]) * (camera.max(initial=0) + 1) + camera
            counts = counts - _occurrences(both[: self.queries], both[self.queries :])
        elif self.same_set:
            counts = counts - 1
        return np.where(self.query_labels == UNLABELLED, 0, counts)


class ListedAnswers(Answers):
    """Matches are listed per query: gallery indices under `easy`, `hard` and `junk`, or under `positives`.

    Listed twice, an image is junk rather than an answer, and easy rather than hard.
    """

    def __init__(
        self,
        ground_truth: Sequence[Mapping[str, Sequence[int]]],
        gallery: int,
        cameras: tuple[Ints, Ints] | None = None,
        same_set: bool = False,
    ) -> None:
        super().__init__(len(ground_truth), gallery, cameras, same_set)
        self._easy = self._pairs(ground_truth, "easy", "positives")
        self._matching = np.union1d(self._easy, self._pairs(ground_truth, "hard"))
        self._junk = self._pairs(ground_truth, "junk")

    def matches(self, queries: Ints, gallery: Ints) -> Flags:
        return self._among(self._matching, queries, gallery)

    def ignored(self, queries: Ints, gallery: Ints) -> Flags:
        return super().ignored(queries, gallery) | self._among(self._junk, queries, gallery)

    def hard(self, queries: Ints, gallery: Ints) -> Flags:
        """Which of the answers are hard."""
        return self.right(queries, gallery) & ~self._among(self._easy, queries, gallery)

    def listed(self, query: int) -> Ints:
        """The gallery images that are right or ignored for `query`, and perhaps others."""
        ends = query * self.gallery, (query + 1) * self.gallery
        parts = (pairs[slice(*np.searchsorted(pairs, ends))] - ends[0] for pairs in (self._matching, self._junk))
        return np.unique(np.concatenate([*parts, [query] if self.same_set else []]).astype(np.int64))

    def counts(self) -> Ints:
        queries, gallery = np.divmod(self._matching, self.gallery)
        return np.bincount(queries[self.right(queries, gallery)], minlength=self.queries)

    def _pairs(self, ground_truth: Sequence[Mapping[str, Sequence[int]]], *keys: str) -> Ints:
        """The pairs under `keys` as the sorted numbers query · gallery size + gallery image."""
        pairs = [np.empty(0, dtype=np.int64)]
        for number, truth in enumerate(ground_truth):
            for key in keys:
                images = np.asarray(truth.get(key, ()), dtype=np.int64)
                if images.size and not 0 <= images.min() <= images.max() < self.gallery:
                    raise DataError(f"the ground truth of query {number} names an image outside 0 … {self.gallery - 1}")
                pairs.append(number * self.gallery + images)
        return np.unique(np.concatenate(pairs))

    def _among(self, pairs: Ints, queries: Ints, gallery: Ints) -> Flags:
        wanted = queries * self.gallery + gallery
        if not len(pairs):
            return np.zeros(wanted.shape, dtype=np.bool_)
        among: Flags = pairs[np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)] == wanted
        return among


def _occurrences(wanted: Ints, present: Ints) -> Ints:
    """How often each of `wanted` is among `present`."""
    ordered = np.sort(present)
    return np.searchsorted(ordered, wanted, side="right") - np.searchsorted(ordered, wanted, side="left")
