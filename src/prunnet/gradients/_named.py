"""Integrators by the names that settings give them."""

from typing import Literal

from ._blocks import Granularity
from ._conflict_aware import ConflictAware, Rule
from ._direct import Direct
from ._integrator import Integrator
from ._mean import Mean
from ._pareto import Pareto
from ._pcgrad import PCGrad
from ._sum import Sum

IntegratorName = Literal["conflict-aware", "direct", "sum", "mean", "pareto", "pcgrad"]


def create_integrator(
    name: IntegratorName,
    *,
    alpha: float = ConflictAware.alpha,
    rule: Rule = ConflictAware.rule,
    granularity: Granularity = ConflictAware.granularity,
) -> Integrator:
    """The integrator `name`, with as many of the settings as it has.

    `granularity` is for the two of the PrunNet paper; the others take for one vector what their own papers do.
    """
    match name:
        case "conflict-aware":
            return ConflictAware(alpha, rule, granularity)
        case "direct":
            return Direct(granularity)
        case "sum":
            return Sum()
        case "mean":
            return Mean()
        case "pareto":
            return Pareto()
        case "pcgrad":
            return PCGrad()
