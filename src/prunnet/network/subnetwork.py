"""A subnetwork taken out of its family: a plain module that can be saved, exported, compiled and deployed."""

import warnings
from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunnet.network.backbones import check_features
from prunnet.network.capacity import format_capacity
from prunnet.network.embeddings import Embeddings
from prunnet.network.head import EmbeddingHead
from prunnet.network.modes import evaluating
from prunnet.network.preprocessing import Picture, Preprocessing, check_images, one_by_one


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


class Family(Protocol):
    """All subnetworks of one trained network: evaluation, export and search ask nothing else of it."""

    family_id: str
    preprocessing: Preprocessing

    @property
    def capacities(self) -> tuple[float, ...]:
        """Those below 1 that it was trained at."""

    def subnetwork(self, capacity: float) -> "Subnetwork":
        """The member at `capacity`, or a `CapacityError` that says which capacities there are."""


class Subnetwork(nn.Module):
    """The subnetwork at `capacity`: `backbone` of the original class with masked weights, then `head`.

    Calling it maps preprocessed images to embeddings, L2-normalised unless `normalise=False`.
    """

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

    @torch.no_grad()
    def encode(self, images: Sequence[Picture] | Picture, batch_size: int = 64) -> Embeddings:
        """Embed PIL images, arrays, uint8 tensors, or an already preprocessed float tensor, for search."""
        reference = next(self.parameters())
        pictures = images if isinstance(images, Tensor) and images.ndim == 4 else list(one_by_one(images))
        with evaluating(self):
            vectors = [
                self(self.preprocessing.batch(pictures[start : start + batch_size]).to(reference)).float()
                for start in range(0, max(1, len(pictures)), batch_size)
            ]
        return Embeddings(torch.cat(vectors), self.family_id, self.capacity)

    def extra_repr(self) -> str:
        return f"capacity={self.capacity:g}, family_id={self.family_id!r}"
