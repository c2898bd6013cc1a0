"""`prunnet.evaluate`: embed each capacity once, score all pairs."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from prunnet._progress import track
from prunnet.data import ImageSet, RetrievalData, shuffled_loader
from prunnet.errors import FamilyError
from prunnet.evaluation.embedding import embed
from prunnet.evaluation.errors import EvaluationError
from prunnet.evaluation.matrix import CompatibilityMatrix, Model
from prunnet.evaluation.metrics import Metric, check_vectors, score_arranged
from prunnet.evaluation.relevance import relevance_of
from prunnet.network import Embeddings, Family, Subnetwork, adapt_batchnorm
from prunnet.network.capacity import check_capacities

CAPACITIES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)


def evaluate(
    family: Family,
    data: RetrievalData,
    capacities: Iterable[float] = CAPACITIES,
    metric: str | None = None,
    *,
    old: Family | None = None,
    old_capacities: Iterable[float] = (1.0,),
    store: str | os.PathLike[str] | None = None,
    batch_size: int = 64,
    workers: int = 0,
    device: str | torch.device | None = None,
    adapt_batches: int = 30,
    memory: str | float = "1GB",
) -> CompatibilityMatrix:
    """The compatibility matrix of `family` on `data`, by the metric its protocol names unless `metric` says otherwise.

    `old` is another family to compare with, for a model upgrade: the matrix then holds both, and `check()` asks of
    pairs across them to reach the old one's self-test. Embeddings are kept in `store`, so that an interrupted
    evaluation continues where it was. A capacity whose batch-norm statistics were never adapted gets them here, from
    `adapt_batches` batches of the training images. `memory` bounds scoring, beside the embeddings.
    """
    Metric.parse(metric or data.protocol.metric)
    chosen = [(family, capacity) for capacity in check_capacities(capacities)]
    if old is not None:
        chosen += [(old, capacity) for capacity in check_capacities(old_capacities)]
    if not chosen:
        raise EvaluationError("at least one capacity is needed, such as capacities=(1, 0.2)")
    folder = None if store is None else Path(store)
    query, gallery = [], []
    for owner, capacity in chosen:
        subnetwork = owner.subnetwork(capacity)
        if device is not None:
            subnetwork = subnetwork.to(device)
        if not subnetwork.adapted and data.train is not None and adapt_batches:
            _adapt(subnetwork, data.train, adapt_batches, batch_size, workers)
        parts = (
            {"gallery": data.gallery} if data.query is data.gallery else {"query": data.query, "gallery": data.gallery}
        )
        made = {
            part: embed(
                subnetwork,
                images,
                batch_size=batch_size,
                workers=workers,
                store=folder,
                description=f"embedding {part}",
            )
            for part, images in parts.items()
        }
        # networks of one family that share no space have ids of their own; here it is asked what they share
        made = {part: replace(embeddings, family_id=owner.family_id) for part, embeddings in made.items()}
        gallery.append(made["gallery"])
        query.append(made.get("query", made["gallery"]))
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


def _adapt(subnetwork: Subnetwork, train: ImageSet, batches: int, batch_size: int, workers: int) -> None:
    loader = shuffled_loader(train, subnetwork.preprocessing, batch_size, workers)
    adapt_batchnorm(subnetwork, loader, max_batches=batches)


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
