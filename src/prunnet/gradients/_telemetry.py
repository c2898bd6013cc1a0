"""What the Gram matrices tell about a training step."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ._blocks import Partition


@dataclass(frozen=True)
class Telemetry:
    """Conflicts and inner products of the gradients of every layer, in the order of `layers`.

    Nothing is computed before it is asked for, and then only from the Gram matrices that integration has left behind.
    Conflicts are counted per output filter of a convolution and per linear layer whatever the integrator's own
    granularity, so that the curves of different integrators can be compared.
    """

    layers: tuple[str, ...]
    row_gramians: Sequence[Tensor]
    """`[R, m, m]` of each layer."""
    filters: Partition
    blocks: Tensor
    """`[B, m, m]`: the Gram matrices of what the integrator took for one vector each."""
    weights: Tensor
    """`[B, m]`: the coefficients it gave the gradients of each."""

    def only(self, layers: Collection[str]) -> "Telemetry":
        """The same of some layers alone; what the integrator did is told of all."""
        kept = [place for place, name in enumerate(self.layers) if name in layers]
        filters = self.filters
        return replace(
            self,
            layers=tuple(self.layers[place] for place in kept),
            row_gramians=[self.row_gramians[place] for place in kept],
            filters=replace(
                filters,
                rows=tuple(filters.rows[place] for place in kept),
                split=tuple(filters.split[place] for place in kept),
            ),
        )

    @property
    def sum_cosine(self) -> Tensor:
        """The cosine of the integrated gradient with the plain sum, over the network; 0 if one of them is 0."""
        combined = (self.weights.unsqueeze(1) @ self.blocks).squeeze(1)
        squared = (combined * self.weights).sum() * self.blocks.sum()
        return torch.where(squared > 0, combined.sum() / squared.sqrt(), 0)

    @property
    def conflicting_pairs(self) -> Tensor:
        """`[L]`: how many pairs of gradients have a negative inner product, summed over the filters of each layer."""
        conflicts = self.filters.merge(self.row_gramians).triu(1) < 0
        per_filter = conflicts.sum((1, 2))
        return torch.stack([layer.sum() for layer in per_filter.split_with_sizes(self.filters.sizes)])

    @property
    def pairs(self) -> tuple[int, ...]:
        """How many pairs there are in each layer: what `conflicting_pairs` can be at most."""
        passes = self.row_gramians[0].shape[-1]
        return tuple(filters * passes * (passes - 1) // 2 for filters in self.filters.sizes)

    @property
    def gramians(self) -> Tensor:
        """`[L, m, m]`: the Gram matrix of each whole layer; summed over layers, that of the network."""
        return torch.stack([layer.sum(0) for layer in self.row_gramians])

    def facts(self, passes: Sequence[str]) -> dict[str, Any]:
        """What is written down of a step: conflicts, cosines and norms by the names of the `passes`, the dense one
        first, and how far integration has turned the sum.
        """
        whole = self.gramians.sum(0).double()
        norms = whole.diagonal().clamp_min(0).sqrt()
        cosines = whole[0, 1:] / (norms[0] * norms[1:]).clamp_min(1e-300)
        pairs = self.conflicting_pairs
        return {
            "conflicts": int(pairs.sum()) / sum(self.pairs),
            "first_layer_conflicts": int(pairs[0]),
            "cosine": dict(zip(passes[1:], cosines.tolist(), strict=True)),
            "norm": dict(zip(passes, norms.tolist(), strict=True)),
            "sum_cosine": float(self.sum_cosine),
        }
