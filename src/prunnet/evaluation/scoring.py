"""`prunnet.evaluate`: embed each capacity once, score all pairs."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from prunnet._devices import device_named
from prunnet._progress import track
from prunnet.data import ImageSet, OnError, RetrievalData, shuffled_loader
from prunnet.errors import EvaluationError, FamilyError
from prunnet.evaluation.embedding import Embedded, embed_readable
from prunnet.evaluation.matrix import CompatibilityMatrix, Model
from prunnet.evaluation.metrics import Metric, check_vectors, score_arranged
from prunnet.evaluation.relevance import relevance_of
from prunnet.network import Embeddings, Family, PrunableNetwork, Subnetwork
from prunnet.network.capacity import check_capacities
from prunnet.network.family import ADAPT_BATCHES, ALIGN_BATCHES

Rows = dict[tuple[int, str], Tensor]
"""By the place of a member, and `query` or `gallery`: a row for each image."""

Ids = dict[str, tuple[str, ...]]


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
    align_batches: int = ALIGN_BATCHES,
    memory: str | float = "1GB",
    ranks: Ranks | None = None,
    on_error: OnError = "raise",
) -> CompatibilityMatrix:
    """The compatibility matrix of `family` on `data`, by the metric its protocol names unless `metric` says otherwise.

    `capacities`: by default the usual ones and those trained, as far as the family has them. `old` is another family to
    compare with, for a model upgrade: the matrix then holds both, and `check()` asks of pairs across them to reach the
    old one's self-test. Embeddings are kept in `store`, so that an interrupted evaluation continues where it was. A
    capacity whose batch-norm statistics were never adapted gets them here, from `adapt_batches` batches of the training
    images; in a prunable network it is aligned with the dense one on `align_batches` of them. `memory` bounds scoring,
    beside the embeddings. `ranks` share the work, and all get the matrix. An image that cannot be read is refused, or
    with `on_error="skip"` left out and named in the matrix: a query is then not asked, a gallery image answers nobody.
    """
    Metric.parse(metric or data.protocol.metric)
    wanted = family.usual_capacities if capacities is None else check_capacities(capacities)
    members = [(family, capacity) for capacity in wanted]
    if old is not None:
        if old.family_id == family.family_id:
            raise EvaluationError(f"old is the same family, {family.family_id}: an upgrade is from another one")
        members += [(old, capacity) for capacity in check_capacities(old_capacities)]
    if not members:
        raise EvaluationError("at least one capacity is needed, such as capacities=(1, 0.2)")
    where = device_named(device) if isinstance(device, str) else device
    one_set = data.query is data.gallery
    parts = {"gallery": data.gallery} if one_set else {"query": data.query, "gallery": data.gallery}

    def embed(owner: Family, capacity: float) -> dict[str, Embedded]:
        subnetwork = _placed(owner.subnetwork(capacity), where)
        if not subnetwork.adapted and data.train is not None and adapt_batches != 0:
            loader = shuffled_loader(data.train, subnetwork.preprocessing, batch_size, workers, on_error)
            dense = _placed(owner.subnetwork(1.0), where) if isinstance(owner, PrunableNetwork) else None
            subnetwork.adapt(loader, adapt_batches=adapt_batches, dense=dense, align_batches=align_batches)
        return {
            part: embed_readable(
                subnetwork,
                images,
                batch_size=batch_size,
                workers=workers,
                store=None if store is None else Path(store),
                description=f"embedding {part}",
                on_error=on_error,
            )
            for part, images in parts.items()
        }

    vectors, readable = _embed_shared(members, parts, embed, ranks)
    data, vectors, unreadable = _without_unreadable(data, vectors, readable)
    # networks of one family that share no space have ids of their own; here it is asked what they share
    made = {
        (place, part): Embeddings(tensor, members[place][0].family_id, members[place][1])
        for (place, part), tensor in vectors.items()
    }
    gallery = [made[place, "gallery"] for place in range(len(members))]
    query = gallery if one_set else [made[place, "query"] for place in range(len(members))]
    old_id = None if old is None else old.family_id
    matrix = compatibility_matrix(query, gallery, data, metric, old=old_id, memory=memory)
    return replace(matrix, unreadable_queries=unreadable["query"], unreadable_gallery=unreadable["gallery"])


def _placed(subnetwork: Subnetwork, device: torch.device | None) -> Subnetwork:
    return subnetwork if device is None else subnetwork.to(device)


def _embed_shared(
    members: Sequence[tuple[Family, float]],
    parts: Mapping[str, ImageSet],
    embed: Callable[[Family, float], Mapping[str, Embedded]],
    ranks: Ranks | None,
) -> tuple[Rows, Rows]:
    """Vectors of every member, and which images it could read; each of `ranks` embeds its share, and all get all."""
    vectors: Rows = {}
    readable: Rows = {}
    for place, (owner, capacity) in enumerate(members):
        if ranks is None or place % ranks.size == ranks.rank:
            for part, embedded in embed(owner, capacity).items():
                vectors[place, part] = embedded.embeddings.vectors
                readable[place, part] = torch.from_numpy(embedded.readable.astype(np.uint8))
        else:
            for part, images in parts.items():
                vectors[place, part] = torch.empty(len(images), owner.embedding_dim)
                readable[place, part] = torch.empty(len(images), dtype=torch.uint8)
    if ranks is not None:
        for tensors in (vectors, readable):
            for (place, _), tensor in tensors.items():
                ranks.copy_from(tensor, place % ranks.size)
    return vectors, readable


def _without_unreadable(data: RetrievalData, vectors: Rows, readable: Rows) -> tuple[RetrievalData, Rows, Ids]:
    """What is left to score when images go that some member could not read, and the ids of those by part."""
    flags = {
        part: torch.stack([flag for (_, its_part), flag in readable.items() if its_part == part]).bool().all(0)
        for _, part in readable
    }
    if data.protocol.same_set or data.query is data.gallery:
        flags = dict.fromkeys(("query", "gallery"), torch.stack(list(flags.values())).all(0))
    unreadable = {
        part: tuple(images.ids[index] for index in (~flags[part]).nonzero().flatten().tolist())
        for part, images in (("query", data.query), ("gallery", data.gallery))
    }
    if not any(unreadable.values()):
        return data, vectors, unreadable
    kept = {part: flag.nonzero().flatten() for part, flag in flags.items()}
    data = data.take(kept["query"].numpy(), kept["gallery"].numpy())
    return data, {(place, part): rows[kept[part]] for (place, part), rows in vectors.items()}, unreadable


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
    pairs = list(zip(query, gallery, strict=True))
    models = tuple(_model(*pair, query[0].family_id, old) for pair in pairs)
    parsed, relevance = Metric.parse(metric or data.protocol.metric), relevance_of(data)
    dimensions = {embeddings.vectors.shape[-1] for embeddings in (*query, *gallery)}
    if len(dimensions) > 1:
        raise EvaluationError(
            f"embeddings of {' and '.join(map(str, sorted(dimensions)))} dimensions cannot be compared"
        )
    for asking, answering in pairs:
        check_vectors(asking.vectors, relevance.queries, "query")
        check_vectors(answering.vectors, relevance.gallery, "gallery")
    scores = np.empty((len(models), len(models), relevance.queries))
    for column, answering in enumerate(track(gallery, "scoring galleries")):
        arranged = relevance.arrange(answering.vectors)
        for row, asking in enumerate(query):
            scores[row, column] = score_arranged(asking.vectors, arranged, relevance, [parsed], memory)[0]
    answered = ~np.isnan(scores[0, 0])
    if not answered.any():
        raise EvaluationError(f"{data.name}: nothing in the gallery answers any of the {relevance.queries} queries")
    per_query = np.ascontiguousarray(scores[:, :, answered])  # else a mean depends on how many members there are
    return CompatibilityMatrix(
        models=models,
        values=per_query.mean(axis=-1),
        metric=parsed.name,
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
