"""Reads every image once and says what would spoil training or make the evaluation lie."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from prunnet._progress import track
from prunnet.data.images import ImageSet
from prunnet.data.registry import load_data
from prunnet.data.retrieval import RetrievalData, answers_of
from prunnet.errors import UnreadableImageError


@dataclass(frozen=True)
class Finding:
    """One kind of problem: how often, and the first cases."""

    severity: Literal["error", "warning"]
    problem: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What `check` found; `ok` unless there are errors."""

    name: str
    sets: Mapping[str, ImageSet]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)


@dataclass(frozen=True)
class _Seen:
    """An image as read: where it is, and a digest of its pixels, or why there is none."""

    part: str
    id: str
    digest: bytes | None = None
    side: int = 0
    error: str = ""


def check(data: RetrievalData | str | Path, min_side: int = 8, examples: int = 3) -> Report:
    """Read all of `data`, and list at most `examples` cases of each problem.

    Errors: images that cannot be read or have a side under `min_side` pixels, queries without an answer, one picture on
    both sides of a split. Warnings: duplicates within a set, classes of one training image, classes on both sides.
    """
    data = load_data(data)
    sets = {"train": data.train, "query": data.query, "gallery": data.gallery}
    if data.query is data.gallery:
        sets = {"train": data.train, "test": data.gallery}
    present = {part: images for part, images in sets.items() if images is not None}
    seen = _read(present)
    findings: list[Finding] = []

    def report(severity: Literal["error", "warning"], problem: str, cases: Iterable[str]) -> None:
        listed = list(cases)
        if listed:
            findings.append(Finding(severity, problem, len(listed), tuple(listed[:examples])))

    report("error", "unreadable image", (item.error for item in seen if item.error))
    small = (item for item in seen if not item.error and item.side < min_side)
    report("error", f"image under {min_side} pixels", (f"{item.part}: {item.id} ({item.side} px)" for item in small))
    unanswered = np.flatnonzero(answers_of(data).counts() == 0)
    report("error", "query without an answer in the gallery", (data.query.ids[i] for i in unanswered))
    copies = _copies(seen)
    across = [group for group in copies if len({item.part for item in group}) > 1]
    report("error", "same picture on both sides of a split", map(_describe, across))
    within = [group for group in copies if len({item.part for item in group}) < len(group)]
    report("warning", "same picture more than once in a set", map(_describe, within))
    if data.train is not None:
        names, counts = data.train.label_names, np.bincount(data.train.labels[data.train.labels >= 0])
        report("warning", "class of one training image", (names[i] for i in np.flatnonzero(counts == 1)))
        shared = sorted(set(names) & set(data.gallery.label_names))
        report("warning", "class in training and in evaluation", shared)
    return Report(data.name, present, tuple(findings))


def _read(sets: Mapping[str, ImageSet]) -> list[_Seen]:
    """All images, by threads: decoding and hashing release the interpreter."""
    seen: list[_Seen] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for part, images in sets.items():
            for block in track(_blocks(len(images)), f"reading {part}"):
                seen.extend(pool.map(partial(_inspect, part, images), block))
    return seen


def _blocks(count: int, size: int = 1024) -> list[range]:
    """Millions of images are not put in the pool's queue at once."""
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _inspect(part: str, images: ImageSet, index: int) -> _Seen:
    try:
        image = images.image(index)
    except UnreadableImageError as error:
        return _Seen(part, images.ids[index], error=str(error))
    pixels = np.ascontiguousarray(image)
    digest = hashlib.blake2b(f"{pixels.shape}".encode() + pixels.tobytes(), digest_size=16).digest()
    return _Seen(part, images.ids[index], digest, min(image.size))


def _copies(seen: list[_Seen]) -> list[list[_Seen]]:
    groups: dict[bytes, list[_Seen]] = {}
    for item in seen:
        if item.digest is not None:
            groups.setdefault(item.digest, []).append(item)
    return [group for group in groups.values() if len(group) > 1]


def _describe(group: list[_Seen]) -> str:
    return " = ".join(f"{item.part}: {item.id}" for item in group[:4])
