"""What an integrator sees of the gradients of all blocks."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class Blocks:
    """The Gram matrices `[B, m, m]` (float64) of B blocks, those of one layer next to each other."""

    gramians: Tensor
    rounding: Tensor
    """`[B]`: the relative error of the inner products, that is the epsilon of the type they were summed in."""
    sizes: tuple[int, ...]
    """The number of blocks of each layer."""

    @cached_property
    def norms(self) -> Tensor:
        """The norms `[B, m]` of the gradients."""
        return self.gramians.diagonal(dim1=1, dim2=2).sqrt()

    @cached_property
    def reciprocal_norms(self) -> Tensor:
        """One over `norms`, and zero for a gradient that vanishes."""
        return torch.where(self.norms > 0, 1 / self.norms, 0)

    @cached_property
    def cosines(self) -> Tensor:
        """The cosines `[B, m, m]` between gradients. One that vanishes has cosine 1 with itself, 0 with the others."""
        cosines = self.gramians * self.reciprocal_norms.unsqueeze(1) * self.reciprocal_norms.unsqueeze(2)
        cosines.diagonal(dim1=1, dim2=2).fill_(1)
        return cosines

    def sum_layers(self, values: Tensor) -> Tensor:
        """Replace the values `[B, ...]` of the blocks of each layer by their sum."""
        return torch.cat([layer.sum(0, keepdim=True).expand_as(layer) for layer in values.split_with_sizes(self.sizes)])
