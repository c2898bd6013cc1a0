"""How good the answers of a gallery are, where the classes of queries and images are known."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from prunnet.evaluation import Metric
from prunnet.evaluation.relevance import ABSENT, Before
from prunnet.network import Embeddings
from prunnet.search.protocol import VectorIndex

QUERIES = 64


def mean_average_precision(
    gallery: VectorIndex, queries: Embeddings, labels: Sequence[str | None], paths: Sequence[str | None]
) -> float | None:
    """mAP over the whole ranking, as `prunnet evaluate` computes it; None if no query has a class with answers.

    paths: the file of each query, which is no answer to itself.
    """
    blocks = list(gallery.scan())
    held = [record.metadata for _, records in blocks for record in records]
    classes, files = (np.array([metadata.get(key) for metadata in held], dtype=object) for key in ("label", "path"))
    metric, values = Metric.parse("mAP"), []
    for start in range(0, len(queries), QUERIES):
        part = slice(start, start + QUERIES)
        asked = queries.vectors[part].float().cpu()
        scores = torch.cat([torch.empty(len(asked), 0), *(asked @ vectors.T for vectors, _ in blocks)], dim=1).numpy()
        for place, (label, path) in enumerate(zip(labels[part], paths[part], strict=True)):
            if label is None:
                continue
            own = files == path if path is not None else np.zeros(len(held), dtype=np.bool_)
            right = (classes == label) & ~own
            values.append(metric(Before(_before(scores[place], right, ~right & ~own)))[0])
    answered = [value for value in values if not np.isnan(value)]
    return float(np.mean(answered)) if answered else None


def _before(
    scores: npt.NDArray[np.float32], right: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """How many wrong images stand before each right one, equals before it."""
    if not right.any():
        return np.full((1, 1), ABSENT, dtype=np.int64)
    falling = torch.from_numpy(-scores[wrong]).sort().values
    counts = torch.searchsorted(falling, torch.from_numpy(-scores[right]), right=True)
    return counts.numpy()[None]
