from dataclasses import dataclass, field

import torch
from torch import Tensor

from ._blocks import Blocks, Granularity
from ._integrator import Integrator


@dataclass(frozen=True)
class Sum(Integrator):
    """Σ g_i, the gradient of the sum of the losses: direct loss combination, an ablation of the PrunNet paper."""

    granularity: Granularity = field(default="network", init=False, repr=False)

    def weights(self, blocks: Blocks, order: Tensor) -> Tensor:  # noqa: ARG002
        return torch.ones_like(blocks.norms)
