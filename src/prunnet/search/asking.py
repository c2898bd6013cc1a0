"""Pictures in, answers out: embed queries, ask a gallery, and say how good the answers are where that is known."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import torch

from prunnet._files import write_text
from prunnet.data import ImageSet
from prunnet.errors import SearchError
from prunnet.evaluation import Encoder, embedded_batches
from prunnet.network import Embeddings
from prunnet.search.answers import Answers
from prunnet.search.columns import Metadata
from prunnet.search.guard import check_family
from prunnet.search.measuring import mean_average_precision
from prunnet.search.protocol import VectorIndex
from prunnet.search.sources import label_of

COLUMNS = ("query", "place", "id", "similarity", "query_class", "class", "capacity", "family", "path")


@dataclass(frozen=True)
class Query:
    """An image that asked: its place among all, its id, class and file, as far as they are known."""

    index: int
    id: str
    label: str | None
    path: str | None


@dataclass(frozen=True, eq=False)
class Asked:
    """Queries with their answers; `mean_average_precision` where classes are known on both sides."""

    images: ImageSet
    queries: Sequence[Query]
    answers: Answers
    unreadable: tuple[str, ...]
    mean_average_precision: float | None

    def to_csv(self, file: Path) -> None:
        """A line for every answer."""
        text = StringIO()
        lines = csv.writer(text, lineterminator="\n")
        lines.writerow(COLUMNS)
        for query, hits in zip(self.queries, self.answers, strict=True):
            for place, hit in enumerate(hits, 1):
                known = hit.record
                label, path = known.metadata.get("label", ""), known.metadata.get("path", "")
                about = (query.label or "", label, known.capacity, known.family_id, path)
                lines.writerow((query.id, place, known.id, f"{hit.score:.6f}", *about))
        write_text(file, text.getvalue().encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def ask(
    gallery: VectorIndex,
    encoder: Encoder,
    images: ImageSet,
    k: int = 10,
    where: Metadata | None = None,
    *,
    batch_size: int = 64,
    workers: int = 0,
) -> Asked:
    """The `k` nearest in `gallery` to each of `images` that can be read."""
    check_family(encoder.family_id, gallery.generations, gallery.place, adding=False)
    parts = list(embedded_batches(encoder, images, batch_size=batch_size, workers=workers, description="asking by"))
    unreadable = tuple(message for part in parts for message in part.unreadable)
    if not any(len(part.vectors) for part in parts):
        raise SearchError(f"none of the queries can be read: {unreadable[0] if unreadable else 'there are none'}")
    vectors = torch.cat([part.vectors for part in parts if len(part.vectors)])
    embeddings = Embeddings(vectors, encoder.family_id, encoder.capacity)
    indices = torch.cat([part.indices for part in parts]).tolist()
    queries = [
        Query(index, images.ids[index], label_of(images, index), str(path.resolve()) if path else None)
        for index, path in ((index, images.path(index)) for index in indices)
    ]
    answers = gallery.search(embeddings, k, where)
    measured = None
    if not where and any(query.label is not None for query in queries):
        measured = mean_average_precision(
            gallery, embeddings, [query.label for query in queries], [query.path for query in queries]
        )
    return Asked(images, queries, answers, unreadable, measured)
