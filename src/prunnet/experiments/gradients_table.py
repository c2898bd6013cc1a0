"""The figures of the gradients in numbers: how much the passes of a step disagreed, early and late in training."""

from collections.abc import Callable, Collection, Sequence
from statistics import mean
from typing import Any

from prunnet.experiments.results import RowResult
from prunnet.experiments.suite_tables import Table, cell

NOTE = (
    "Means over the first or last tenth of training, ± standard deviation over seeds. Conflicts: pairs of passes whose "
    "gradients of a filter have a negative inner product. Cosine to dense: of the smallest capacity's gradient and the "
    "dense one, over the whole network; to the sum: of the integrated gradient and the plain sum, 1 where integration "
    "changes nothing. Norms: the largest of a pass over the smallest."
)

Step = dict[str, Any]


def gradients_table(results: Sequence[RowResult]) -> Table | None:
    """A line per row whose passes share weights, unless its runs are older than these records; None without any."""
    rows = []
    for result in results:
        runs = [[step for step in run.steps if "sum_cosine" in step] for run in result.runs.values()]
        if all(runs):
            rows.append([result.label, *(_cell([part(steps) for steps in runs], of) for part, of in COLUMNS.values())])
    return Table(["", *COLUMNS], rows) if rows else None


def _cell(runs: Sequence[Sequence[Step]], value: Callable[[Step], float]) -> str:
    return cell([mean(map(value, steps)) for steps in runs])


def _early(steps: list[Step]) -> list[Step]:
    return steps[: _tenth(steps)]


def _late(steps: list[Step]) -> list[Step]:
    return steps[-_tenth(steps) :]


def _tenth(steps: list[Step]) -> int:
    return max(1, len(steps) // 10)


def _smallest(by_pass: dict[str, float]) -> float:
    """Passes are written largest first."""
    return list(by_pass.values())[-1]


def _spread(norms: Collection[float]) -> float:
    return max(norms) / max(min(norms), 1e-12)  # a pass may have no gradient at all


COLUMNS: dict[str, tuple[Callable[[list[Step]], list[Step]], Callable[[Step], float]]] = {
    "conflicts in the first conv, early": (_early, lambda step: step["first_layer_conflicts"]),
    "late": (_late, lambda step: step["first_layer_conflicts"]),
    "in all layers (%), late": (_late, lambda step: 100 * step["conflicts"]),
    "cosine to dense, early": (_early, lambda step: _smallest(step["cosine"])),
    "cosine to dense, late": (_late, lambda step: _smallest(step["cosine"])),
    "cosine to the sum, early": (_early, lambda step: step["sum_cosine"]),
    "cosine to the sum, late": (_late, lambda step: step["sum_cosine"]),
    "norms, late": (_late, lambda step: _spread(step["norm"].values())),
    "dense loss, late": (_late, lambda step: step["loss"]["1"]),
    "smallest capacity's loss, late": (_late, lambda step: _smallest(step["loss"])),
}
