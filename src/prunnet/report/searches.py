"""Real queries with their first answers, by the dense network and by a small one in the gallery of the dense."""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from prunnet.data import UNLABELLED, ImageSet, RetrievalData
from prunnet.network import Embeddings

SHOWN = 8  # queries
ANSWERS = 5
PIXELS = 112  # longest side of a picture in the report
FORMATS = {"png": "PNG", "jpeg": "JPEG"}


@dataclass(frozen=True)
class Answer:
    """A gallery image among the first."""

    picture: str
    name: str
    right: bool


@dataclass(frozen=True)
class ExampleSearch:
    """A query and what each network finds, by its capacity."""

    picture: str
    name: str
    found: dict[float, list[Answer]]


def search_examples(data: RetrievalData, queries: Sequence[Embeddings], gallery: Embeddings) -> list[ExampleSearch]:
    """Evenly spaced queries, so that nobody chose them, asked by each of `queries` in one `gallery`."""
    chosen = np.unique(np.linspace(0, len(data.query) - 1, SHOWN, dtype=np.int64))
    return [
        ExampleSearch(
            picture=picture(data.query.image(int(query))),
            name=_name(data.query, int(query)),
            found={asked.capacity: _answers(data, int(query), asked, gallery) for asked in queries},
        )
        for query in chosen
    ]


def _answers(data: RetrievalData, query: int, asked: Embeddings, gallery: Embeddings) -> list[Answer]:
    right, ignored = relevant(data, query)
    row = Embeddings(asked.vectors[query : query + 1], asked.family_id, asked.capacity)
    similarity = row.similarity(gallery)[0].clone()
    similarity[torch.from_numpy(ignored)] = -torch.inf
    count = min(ANSWERS, int((~ignored).sum()))
    return [
        Answer(picture(data.gallery.image(place)), _name(data.gallery, place), bool(right[place]))
        for place in similarity.topk(count).indices.tolist()
    ]


def relevant(data: RetrievalData, query: int) -> tuple[np.ndarray, np.ndarray]:
    """Which gallery images answer `query`, and which its protocol ignores."""
    rule, gallery = data.protocol, data.gallery
    right, ignored = np.zeros(len(gallery), dtype=bool), np.zeros(len(gallery), dtype=bool)
    if rule.ground_truth is not None:
        truth = rule.ground_truth[query]
        for key in ("positives", "easy", "hard"):
            right[truth.get(key, [])] = True
        ignored[truth.get("junk", [])] = True
        return right, ignored
    right = (gallery.labels == data.query.labels[query]) & (gallery.labels != rule.distractor_label)
    if rule.camera_junk and gallery.cameras is not None and data.query.cameras is not None:
        ignored |= right & (gallery.cameras == data.query.cameras[query])
    if rule.same_set:
        ignored[query] = True
    return right & ~ignored, ignored


def picture(image: Image.Image) -> str:
    """A small copy as a data URI: exact for small images, JPEG for photographs."""
    small = image.copy()
    exact = max(image.size) <= PIXELS
    small.thumbnail((PIXELS, PIXELS))
    kind = "png" if exact else "jpeg"
    data = io.BytesIO()
    (small if exact else small.convert("RGB")).save(data, FORMATS[kind], optimize=True)
    return f"data:image/{kind};base64,{base64.b64encode(data.getvalue()).decode()}"


def _name(images: ImageSet, index: int) -> str:
    label = int(images.labels[index])
    return images.ids[index] if label == UNLABELLED else images.label_names[label]
