"""Queries to try: images of the family's own data set, or of a folder, with their class where the gallery has it."""

from typing import NamedTuple

import numpy as np
import torch

from prunnet._pictures import thumbnail
from prunnet.data import ImageSet
from prunnet.errors import PrunNetError
from prunnet.network import Embeddings
from prunnet.search import VectorIndex, images_in, label_of
from prunnet.serve.model import ServedModel
from prunnet.serve.pictures import SIDE, Thumbnail

SHOWN = 24


class Query(NamedTuple):
    """A picture that can ask; `label` is what right answers have."""

    picture: Thumbnail
    label: str | None


def example_queries(index: VectorIndex, model: ServedModel, source: str | None = None) -> list[Query]:
    """Evenly spaced images of `source`, or of the run's data if it is still there."""
    images = _images(model, source)
    if images is None:
        return []
    found = []
    for place in np.unique(np.linspace(0, len(images) - 1, SHOWN, dtype=np.int64)).tolist():
        try:
            small = thumbnail(images.image(place), SIDE)
        except PrunNetError:
            continue  # one that cannot be read is no example
        found.append(Query(Thumbnail(*small), _label(index, images, place)))
    return found


def has_label(index: VectorIndex, label: str | None = None) -> bool:
    """Whether `index` has a vector of this class, or of any."""
    any_vector = torch.nn.functional.one_hot(torch.tensor([0]), index.dimension).float()
    asking = Embeddings(any_vector, index.family_id, 1.0)
    hits = index.search(asking, 1, None if label is None else {"label": label})[0]
    return bool(hits) and "label" in hits[0].metadata


def _images(model: ServedModel, source: str | None) -> ImageSet | None:
    if source is not None:
        return images_in(source, part="query")
    try:
        return None if model.run is None else model.run.load_data().query
    except (PrunNetError, OSError):
        return None  # the data may be elsewhere by now


def _label(index: VectorIndex, images: ImageSet, place: int) -> str | None:
    """Its class as the gallery names it: that of the data set, or the folder that it lies in."""
    names = (label_of(images, place), images.ids[place].partition("/")[0])
    return next((name for name in names if name and has_label(index, name)), None)
