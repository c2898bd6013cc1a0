"""Real queries with their first answers, by the dense network and by a small one in the gallery of the dense."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from prunnet._pictures import thumbnail
from prunnet.data import UNLABELLED, ImageSet, RetrievalData
from prunnet.data.retrieval import Answers, answers_of
from prunnet.network import Embeddings

SHOWN = 8  # queries
ANSWERS = 5
PIXELS = 112  # longest side of a picture in the report


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
    answers: dict[float, list[Answer]]


def search_examples(data: RetrievalData, queries: Sequence[Embeddings], gallery: Embeddings) -> list[ExampleSearch]:
    """Evenly spaced queries, so that nobody chose them, asked by each of `queries` in one `gallery`."""
    rule = answers_of(data)
    spaced = np.unique(np.linspace(0, len(data.query) - 1, SHOWN, dtype=np.int64)).tolist()
    return [
        ExampleSearch(
            picture=picture(data.query.image(query)),
            name=_name(data.query, query),
            answers={asked.capacity: _first(data.gallery, rule, query, asked, gallery) for asked in queries},
        )
        for query in spaced
    ]


def _first(images: ImageSet, rule: Answers, query: int, asked: Embeddings, gallery: Embeddings) -> list[Answer]:
    pairs = np.array(query), np.arange(len(images))
    right, ignored = rule.right(*pairs), rule.ignored(*pairs)
    row = Embeddings(asked.vectors[query : query + 1], asked.family_id, asked.capacity)
    similarity = row.similarity(gallery)[0].clone()
    similarity[torch.from_numpy(ignored)] = -torch.inf
    count = min(ANSWERS, int((~ignored).sum()))
    return [
        Answer(picture(images.image(place)), _name(images, place), bool(right[place]))
        for place in similarity.topk(count).indices.tolist()
    ]


def picture(image: Image.Image) -> str:
    """A small copy as a data URI."""
    data, kind = thumbnail(image, PIXELS)
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _name(images: ImageSet, index: int) -> str:
    label = int(images.labels[index])
    return images.ids[index] if label == UNLABELLED else images.label_names[label]
