"""`prunnet.evaluate`: embed each capacity once, score all pairs."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from prunnet._progress import track
from prunnet.data import RetrievalData, shuffled_loader
from prunnet.errors import EvaluationError, FamilyError
from prunnet.evaluation.embedding import embed_images
from prunnet.evaluation.matrix import CompatibilityMatrix, Model
from prunnet.evaluation.metrics import Metric, check_vectors, score_arranged
from prunnet.evaluation.relevance import relevance_of
from prunnet.network import Embeddings, Family
from prunnet.network.capacity import check_capacities
from prunnet.network.family import ADAPT_BATCHES


class Ranks(Protocol):
    """Processes that evaluate together, each a share of the subnetworks (`prunnet.training.ranks.Ranks` is one)."""

    rank: int
    size: int

    def copy_from(self, tensor: Tensor, rank: int) -> None:
        """Give every process the values that `rank` has."""


def evaluate(
    family: Family,
    data: RetrievalData,
    capacities: Iterable[float] | None = None,
    metric: str | None = None,
    *,
    old: Family | None = None,
    old_capacities: Iterable[float] = (1.0,),
    store: str | os.PathLike[str] | None = None,
    batch_size: int = 64,
    workers: int = 0,
    device: str | torch.device | None = None,
    adapt_batches: int | None = ADAPT_BATCHES,
    memory: str | float = "1GB",
    ranks: Ranks | None = None,
) -> CompatibilityMatrix:
    """The compatibility matrix of `family` on `data`, by the metric its protocol names unless `metric` says otherwise.

    `capacities`: by default the usual ones and those trained, as far as the family has them. `old` is another family to
    compare with, for a model upgrade: the matrix then holds both, and `check()` asks of pairs across them to reach the
    old one's self-test. Embeddings are kept in `store`, so that an interrupted evaluation continues where it was. A
    capacity whose batch-norm statistics were never adapted gets them here, from `adapt_batches` batches of the training
    images. `memory` bounds scoring, beside the embeddings. `ranks` share the work, and all get the matrix.
    """
    Metric.parse(metric or data.protocol.metric)
    wanted = family.usual_capacities if capacities is None else check_capacities(capacities)
    members = [(family, capacity) for capacity in wanted]
    if old is not None:
        members += [(old, capacity) for capacity in check_capacities(old_capacities)]
    if not members:
        raise EvaluationError("at least one capacity is needed, such as capacities=(1, 0.2)")
    folder = None if store is None else Path(store)
    one_set = data.query is data.gallery
    parts = {"gallery": data.gallery} if one_set else {"query": data.query, "gallery": data.gallery}
    vectors: dict[tuple[int, str], Tensor] = {}
    for place, (owner, capacity) in enumerate(members):
        if ranks is not None and place % ranks.size != ranks.rank:
            for part, images in parts.items():
                vectors[place, part] = torch.empty(len(images), owner.embedding_dim)
            continue
        subnetwork = owner.subnetwork(capacity)
        if device is not None:
            subnetwork = subnetwork.to(device)
        if not subnetwork.adapted and data.train is not None and adapt_batches != 0:
            loader = shuffled_loader(data.train, subnetwork.preprocessing, batch_size, workers)
            subnetwork.adapt(loader, adapt_batches=adapt_batches)
        for part, images in parts.items():
            vectors[place, part] = embed_images(
                subnetwork,
                images,
                batch_size=batch_size,
                workers=workers,
                store=folder,
                description=f"embedding {part}",
            ).vectors
    if ranks is not None:
        for (place, _), tensor in vectors.items():
            ranks.copy_from(tensor, place % ranks.size)
    # networks of one family that share no space have ids of their own; here it is asked what they share
    made = {
        (place, part): Embeddings(tensor, members[place][0].family_id, members[place][1])
        for (place, part), tensor in vectors.items()
    }
    gallery = [made[place, "gallery"] for place in range(len(members))]
    query = gallery if one_set else [made[place, "query"] for place in range(len(members))]
    return compatibility_matrix(query, gallery, data, metric, old=None if old is None else old.family_id, memory=memory)


def compatibility_matrix(
    query: Sequence[Embeddings],
    gallery: Sequence[Embeddings],
    data: RetrievalData,
    metric: str | None = None,
    *,
    old: str | None = None,
    memory: str | float = "1GB",
) -> CompatibilityMatrix:
    """Score embeddings made already: `query[i]` and `gallery[i]` by the same subnetwork, one pair per capacity.

    All are of one family, unless `old` names the id of a second one.
    """
    models = tuple(_model(asked, found, query[0].family_id, old) for asked, found in zip(query, gallery, strict=True))
    chosen, relevance = Metric.parse(metric or data.protocol.metric), relevance_of(data)
    dimensions = {embeddings.vectors.shape[-1] for embeddings in (*query, *gallery)}
    if len(dimensions) > 1:
        raise EvaluationError(
            f"embeddings of {' and '.join(map(str, sorted(dimensions)))} dimensions cannot be compared"
        )
    for asked, found in zip(query, gallery, strict=True):
        check_vectors(asked.vectors, relevance.queries, "query")
        check_vectors(found.vectors, relevance.gallery, "gallery")
    scores = np.empty((len(models), len(models), relevance.queries))
    for column, found in enumerate(track(gallery, "scoring galleries")):
        arranged = relevance.arrange(found.vectors)
        for row, asked in enumerate(query):
            scores[row, column] = score_arranged(asked.vectors, arranged, relevance, [chosen], memory)[0]
    answered = ~np.isnan(scores[0, 0])
    if not answered.any():
        raise EvaluationError(f"{data.name}: nothing in the gallery answers any of the {relevance.queries} queries")
    per_query = scores[:, :, answered]
    return CompatibilityMatrix(
        models=models,
        values=per_query.mean(axis=-1),
        metric=chosen.name,
        data=data.name,
        queries=int(answered.sum()),
        unanswered=int((~answered).sum()),
        per_query=per_query,
    )


def _model(query: Embeddings, gallery: Embeddings, family_id: str, old: str | None) -> Model:
    for embeddings in (query, gallery):
        if embeddings.family_id not in (family_id, old):
            raise FamilyError(
                f"embeddings of family {embeddings.family_id} do not belong to family {family_id}; "
                "to compare two families, pass the other one as old="
            )
    if (query.family_id, query.capacity) != (gallery.family_id, gallery.capacity):
        raise EvaluationError("query and gallery embeddings of one row must come from the same subnetwork")
    role = "" if old is None else "old" if query.family_id == old else "new"
    return Model(query.capacity, query.family_id, role)
