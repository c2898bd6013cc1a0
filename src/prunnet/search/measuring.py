"""How good the answers of a gallery are, where the classes of queries and images are known."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from prunnet.evaluation import Metric
from prunnet.evaluation.relevance import ABSENT, Before
from prunnet.network import Embeddings
from prunnet.search.folder import FolderIndex

QUERIES = 64


def mean_average_precision(
    gallery: FolderIndex, queries: Embeddings, labels: Sequence[str | None], paths: Sequence[str | None]
) -> float | None:
    """mAP over the whole ranking, as `prunnet evaluate` computes it; None if no query has a class with answers.

    paths: the file of each query, which is no answer to itself.
    """
    classes, files = gallery.snapshot.codes("label"), gallery.snapshot.codes("path")
    metric, values = Metric.parse("mAP"), []
    for start in range(0, len(queries), QUERIES):
        part = slice(start, start + QUERIES)
        scores, rows = gallery.nearest(queries.vectors[part].float().cpu(), max(1, len(gallery)))
        for place, label in enumerate(labels[part]):
            if label is None:
                continue
            found = rows[place].numpy()
            own = files.flags(paths[start + place], found)
            right = classes.flags(label, found) & ~own
            values.append(metric(Before(_before(scores[place].numpy(), right, ~right & ~own)))[0])
    answered = [value for value in values if not np.isnan(value)]
    return float(np.mean(answered)) if answered else None


def _before(
    scores: npt.NDArray[np.float32], right: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """How many wrong images stand before each right one, equals before it."""
    if not right.any():
        return np.full((1, 1), ABSENT, dtype=np.int64)
    falling = torch.from_numpy(-scores[wrong])
    counts = torch.searchsorted(falling, torch.from_numpy(-scores[right]), right=True)
    return counts.numpy()[None]
