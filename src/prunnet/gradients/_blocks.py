"""What counts as one gradient vector, a filter, a row, a layer or the network, and what an integrator sees of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

from prunnet.errors import GradientError

Granularity = Literal["filter", "row", "layer", "network"]
GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)


def check_granularity(granularity: str, allowed: Sequence[str] = GRANULARITIES) -> None:
    if granularity not in allowed:
        raise GradientError(f"granularity must be one of {', '.join(allowed)}; found {granularity!r}")


@dataclass(frozen=True)
class Partition:
    """Groups the rows of all layers into blocks, each integrated on its own.

    `rows` holds the number of rows of each layer and `split` whether each of them is a block; otherwise the layer is
    one, and with `network` all layers together are.
    """

    rows: tuple[int, ...]
    split: tuple[bool, ...]
    network: bool

    @classmethod
    def of(cls, shapes: Sequence[torch.Size], granularity: Granularity) -> "Partition":
        """The partition of weights of these shapes. `"filter"` keeps linear layers whole, as the paper does."""
        least_dimensions = {"filter": 3, "row": 2}.get(granularity)
        return cls(
            rows=tuple(shape[0] if len(shape) > 1 else 1 for shape in shapes),
            split=tuple(least_dimensions is not None and len(shape) >= least_dimensions for shape in shapes),
            network=granularity == "network",
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of blocks of each layer, or (1,) for the network."""
        if self.network:
            return (1,)
        return tuple(rows if split else 1 for rows, split in zip(self.rows, self.split, strict=True))

    def merge(self, layers: Sequence[Tensor]) -> Tensor:
        """Sum values `[R, ...]` of the rows of each layer into values `[B, ...]` of the blocks."""
        parts = [
            layer if split else layer.sum(0, keepdim=True) for layer, split in zip(layers, self.split, strict=True)
        ]
        blocks = torch.cat(parts)
        return blocks.sum(0, keepdim=True) if self.network else blocks

    def spread(self, blocks: Tensor) -> list[Tensor]:
        """Give every row of each layer the value of its block: the way back from `merge`."""
        parts = [blocks] * len(self.rows) if self.network else blocks.split_with_sizes(self.sizes)
        return [part.expand(rows, *part.shape[1:]) for part, rows in zip(parts, self.rows, strict=True)]


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
