from dataclasses import dataclass

import torch
from torch import Tensor

from ._blocks import Blocks, Granularity
from ._integrator import Integrator
from ._projection import combine_projections, project


@dataclass(frozen=True)
class PCGrad(Integrator):
    """Gradient surgery (Yu et al., 2020): the sum of the projected gradients.

    Its vectors are the gradients of the whole network; per filter it is `Direct`.
    """

    granularity: Granularity = "network"

    def weights(self, blocks: Blocks, order: Tensor) -> Tensor:
        return combine_projections(project(blocks.cosines, order), torch.ones_like(blocks.norms), blocks)
