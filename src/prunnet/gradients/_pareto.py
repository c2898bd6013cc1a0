from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from prunnet.errors import MissingExtraError

from ._blocks import Blocks, Granularity, check_granularity
from ._integrator import Integrator


@dataclass(frozen=True)
class Pareto(Integrator):
    """Pareto integration: the convex combination of the gradients with the least norm (MGDA; Sener and Koltun, 2018).

    Its weights sum to 1, so its scale is that of `Mean`. torchjd solves one problem at a time on the CPU, which suits
    the network, as MGDA is defined, or its layers; thousands of filters would take longer than the training step.
    """

    sums: ClassVar[bool] = False
    granularity: Granularity = "network"

    def __post_init__(self) -> None:
        check_granularity(self.granularity, allowed=("layer", "network"))
        _mgda_weighting()

    def weights(self, blocks: Blocks, order: Tensor) -> Tensor:  # noqa: ARG002
        solve = _mgda_weighting()
        return torch.stack([solve(gramian) for gramian in blocks.gramians.cpu()]).to(blocks.gramians.device)


def _mgda_weighting() -> Any:
    try:
        from torchjd.aggregation import MGDAWeighting
    except ModuleNotFoundError as error:
        raise MissingExtraError("torchjd", "torchjd", "Pareto integration") from error
    return MGDAWeighting()
