from dataclasses import dataclass

from torch import Tensor

from ._blocks import Blocks, Granularity
from ._conflict_aware import ConflictAware
from ._integrator import Integrator


@dataclass(frozen=True)
class Direct(Integrator):
    """Direct gradient integration, an ablation of the PrunNet paper: the sum of the projected gradients (alpha = 0)."""

    granularity: Granularity = "filter"

    def weights(self, blocks: Blocks, order: Tensor) -> Tensor:
        return ConflictAware(alpha=0).weights(blocks, order)
