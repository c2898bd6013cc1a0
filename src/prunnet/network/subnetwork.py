"""A subnetwork taken out of its family: a plain module that can be saved, exported, compiled and deployed."""

import copy
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunnet.errors import CapacityError
from prunnet.network import batchnorm
from prunnet.network.aligning import aligned_statistics
from prunnet.network.backbones import check_features
from prunnet.network.capacity import check_capacities, check_capacity, format_capacity
from prunnet.network.embeddings import Embeddings
from prunnet.network.family import ADAPT_BATCHES, ALIGN_BATCHES, Family
from prunnet.network.functional import embed_batches, evaluating
from prunnet.network.preprocessing import Picture, Preprocessing, check_images
from prunnet.network.ranking import Masks


class EmbeddingHead(nn.Module):
    """features → linear → `embedding_dim` → BatchNorm1d = the embedding."""

    def __init__(self, in_features: int, embedding_dim: int) -> None:
        super().__init__()
        self.embedding_dim = embedding_dim
        self.linear = nn.Linear(in_features, embedding_dim)
        self.norm = nn.BatchNorm1d(embedding_dim)

    def reset_parameters(self) -> None:
        """Start afresh."""
        self.linear.reset_parameters()
        self.norm.reset_parameters()

    def forward(self, features: Tensor) -> Tensor:
        embedding: Tensor = self.norm(self.linear(features))
        return embedding


class NotAdaptedWarning(UserWarning):
    """A subnetwork is used with the dense network's batch-norm statistics, which do not fit its activations."""


def warn_not_adapted(capacity: float, family_id: str) -> None:
    """Say by name which subnetwork still needs `prunnet.adapt_batchnorm`."""
    warnings.warn(
        f"the {format_capacity(capacity)} subnetwork of family {family_id} uses the batch-norm statistics of the dense "
        "network, since its own were never adapted; call prunnet.adapt_batchnorm on it",
        NotAdaptedWarning,
        stacklevel=3,
    )


class Subnetwork(nn.Module, Family):
    """The subnetwork at `capacity`: `backbone` of the original class with masked weights, then `head`.

    Calling it maps preprocessed images to embeddings, L2-normalised unless `normalise=False`. It is also the family of
    which only this one is there.
    """

    kind = "one subnetwork"

    def __init__(
        self,
        backbone: nn.Module,
        head: EmbeddingHead,
        *,
        capacity: float,
        family_id: str,
        preprocessing: Preprocessing,
        adapted: bool,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.capacity = capacity
        self.family_id = family_id
        self.preprocessing = preprocessing
        self.adapted = adapted
        self._warned = False

    def forward(self, images: Tensor, *, normalise: bool = True) -> Tensor:
        check_images(images, self.preprocessing)
        if not (self.adapted or self.training or self._warned or torch.compiler.is_compiling()):
            self._warned = True
            warn_not_adapted(self.capacity, self.family_id)
        embedding: Tensor = self.head(check_features(self.backbone(images), self.backbone))
        return F.normalize(embedding, dim=1) if normalise else embedding

    @property
    def capacities(self) -> tuple[float, ...]:
        return () if self.capacity == 1.0 else (self.capacity,)

    @property
    def embedding_dim(self) -> int:
        return self.head.embedding_dim

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        return tuple(capacity for capacity in check_capacities(capacities) if capacity == self.capacity)

    def subnetwork(self, capacity: float) -> "Subnetwork":
        self._check(capacity)
        return copy.deepcopy(self).eval()

    def encode(
        self, images: Sequence[Picture] | Picture, capacity: float | None = None, *, batch_size: int = 64
    ) -> Embeddings:
        """Embed PIL images, arrays, uint8 tensors, or an already preprocessed float tensor, for search."""
        self._check(capacity)
        vectors = embed_batches(self, self.preprocessing.batches(images, batch_size))
        return Embeddings(vectors, self.family_id, self.capacity)

    def adapt(
        self,
        loader: Iterable[Any],
        capacities: Iterable[float] | None = None,
        *,
        adapt_batches: int | None = ADAPT_BATCHES,
        dense: nn.Module | None = None,
        align_batches: int = ALIGN_BATCHES,
    ) -> None:
        """dense: the dense network of the family. The embeddings are then turned to its own, on `align_batches` batches
        of `loader`, which is read again.
        """
        if capacities is not None:
            raise CapacityError(
                f"a subnetwork has one capacity, {self.capacity:g}; capacities= is for the whole network"
            )
        masks: dict[float, Masks] = {self.capacity: {}}
        measured = batchnorm.measured_statistics(self, masks, loader, adapt_batches)
        if dense is not None and align_batches:
            with evaluating(dense):
                measured = aligned_statistics(self, masks, measured, dense, loader, align_batches)
        batchnorm.put_buffers(self, measured[self.capacity])
        self.adapted = True

    def _check(self, capacity: float | None) -> None:
        if capacity is not None and check_capacity(capacity) != self.capacity:
            raise CapacityError(
                f"this is one subnetwork of family {self.family_id}, at {format_capacity(self.capacity)}; found "
                f"{format_capacity(capacity)}, which its family has"
            )

    def extra_repr(self) -> str:
        return f"capacity={self.capacity:g}, family_id={self.family_id!r}"
