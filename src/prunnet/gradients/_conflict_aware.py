from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from prunnet.errors import GradientError

from ._blocks import Blocks, Granularity
from ._integrator import Integrator
from ._projection import combine_projections, project, project_once

Rule = Literal["algorithm", "released"]


@dataclass(frozen=True)
class ConflictAware(Integrator):
    """Conflict-aware integration (Eq. 4–5 and Algorithm 1 of the PrunNet paper).

    Every gradient is projected off the others it conflicts with, and counts for less the further that has turned it:
    g̃ = m Σ γ_i ĝ_i / Σ γ_i with γ_i = cos(g_i, ĝ_i)^alpha. Without conflict this is the sum of the gradients.

    A gradient whose projection vanishes, or ends up opposing the gradient itself, gets γ = 0^alpha; one that is zero
    conflicts with nothing and keeps γ = 1.

    `rule="released"` is what the authors' published code does instead: the gradients meet in one order shared by all
    passes, only the last conflict is projected away, and γ_i = ((cos(g_i, ĝ_i) + 1) / 2)^alpha with the cosine taken
    over the whole layer.
    """

    alpha: float = 0.5
    rule: Rule = "algorithm"
    granularity: Granularity = "filter"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule not in get_args(Rule):
            raise GradientError(f"rule must be one of {', '.join(get_args(Rule))}; found {self.rule!r}")
        if not 0 <= self.alpha < float("inf"):
            raise GradientError(f"alpha must be a finite number, at least 0; found {self.alpha!r}")

    def weights(self, blocks: Blocks, order: Tensor) -> Tensor:
        if self.rule == "algorithm":
            projections = project(blocks.cosines, order)
            gammas = _cosines(*_products(projections, blocks), blocks.rounding) ** self.alpha
        else:
            projections = project_once(blocks.cosines, order[0])
            products = _over_layers(_products(projections, blocks), blocks)
            gammas = ((_cosines(*products, blocks.rounding.max()) + 1) / 2) ** self.alpha
        total = gammas.sum(1, keepdim=True)
        shares = torch.where(total > 0, gammas / total, 0)
        return combine_projections(projections, len(order) * shares, blocks)


def _products(projections: Tensor, blocks: Blocks) -> tuple[Tensor, Tensor]:
    """ĝ_i·g_i and ‖ĝ_i‖², both over ‖g_i‖²."""
    components = projections @ blocks.cosines
    return components.diagonal(dim1=1, dim2=2), (components * projections).sum(2)


def _over_layers(products: tuple[Tensor, Tensor], blocks: Blocks) -> tuple[Tensor, Tensor]:
    """The same of whole layers."""
    squared_norms = blocks.norms**2
    total = blocks.sum_layers(squared_norms)
    inner, squared = (torch.where(total > 0, blocks.sum_layers(squared_norms * x) / total, 1) for x in products)
    return inner, squared


def _cosines(inner: Tensor, squared: Tensor, rounding: Tensor) -> Tensor:
    """cos(g_i, ĝ_i), or 0 where it is negative or nothing is left of ĝ_i but rounding error, which has no direction."""
    error = 4 * inner.shape[1] * rounding.unsqueeze(-1)
    return torch.where(squared > error, inner / squared.sqrt(), 0).clamp(0, 1)
