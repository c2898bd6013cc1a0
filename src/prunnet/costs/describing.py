"""`prunnet.info`: what a family is and what each of its subnetworks costs."""

from collections.abc import Iterable
from dataclasses import dataclass

from prunnet.costs.budget import capacity_for, cost_table
from prunnet.costs.profile import Cost
from prunnet.network import Family
from prunnet.network.family import check_available

CAPACITIES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)


@dataclass(frozen=True)
class Info:
    """`costs` largest first; `fitting` is the largest capacity within the budgets asked for, if any were."""

    kind: str
    family_id: str
    input_size: tuple[int, int, int]
    embedding_dim: int
    capacities: tuple[float, ...]
    costs: tuple[Cost, ...]
    fitting: float | None


def info(
    family: Family,
    capacities: Iterable[float] | None = None,
    *,
    max_bytes: float | str | None = None,
    max_macs: float | str | None = None,
) -> Info:
    """Costs at `capacities` (default: the usual ones and those trained), and at the largest within a budget."""
    wanted = (
        family.available((*CAPACITIES, *family.capacities))
        if capacities is None
        else check_available(family, capacities)
    )
    fitting = None
    if max_bytes is not None or max_macs is not None:
        fitting = capacity_for(family, max_bytes=max_bytes, max_macs=max_macs)
    rows = sorted({*wanted, *(() if fitting is None else (fitting,))}, reverse=True)
    return Info(
        kind=family.kind,
        family_id=family.family_id,
        input_size=family.preprocessing.input_size,
        embedding_dim=family.embedding_dim,
        capacities=family.capacities,
        costs=tuple(cost_table(family, rows)),
        fitting=fitting,
    )
