from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from ._blocks import Blocks, Granularity
from ._integrator import Integrator


@dataclass(frozen=True)
class Mean(Integrator):
    """Σ g_i / m, the gradient of the mean of the losses."""

    sums: ClassVar[bool] = False
    granularity: Granularity = field(default="network", init=False, repr=False)

    def weights(self, blocks: Blocks, order: Tensor) -> Tensor:
        return torch.full_like(blocks.norms, 1 / len(order))
