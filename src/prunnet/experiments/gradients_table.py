"""The figures of the gradients in numbers: how much the passes of a step disagreed, early and late in training."""

from collections.abc import Callable, Sequence
from statistics import mean
from typing import Any

from prunnet.experiments.results import RowResult
from prunnet.experiments.tables import Table, cell
from prunnet.training.records import read_records

NOTE = (
    "Means over the first or last tenth of training, ± standard deviation over seeds. Conflicts: pairs of passes whose "
    "gradients of a filter have a negative inner product. Cosine: of the dense gradient and that of the smallest "
    "capacity, over the whole network. Norms: that of the pass with the largest gradient over that of the smallest."
)

Step = dict[str, Any]
COLUMNS: dict[str, Callable[[list[Step]], float]] = {
    "conflicts in the first conv, early": lambda steps: _early(steps, lambda step: step["first_layer_conflicts"]),
    "late": lambda steps: _late(steps, lambda step: step["first_layer_conflicts"]),
    "in all layers (%), late": lambda steps: _late(steps, lambda step: 100 * step["conflicts"]),
    "cosine, early": lambda steps: _early(steps, lambda step: _smallest(step["cosine"])),
    "cosine, late": lambda steps: _late(steps, lambda step: _smallest(step["cosine"])),
    "norms, largest ÷ smallest, late": lambda steps: _late(
        steps, lambda step: max(step["norm"].values()) / min(step["norm"].values())
    ),
    "dense loss, late": lambda steps: _late(steps, lambda step: step["loss"]["1"]),
    "smallest capacity's loss, late": lambda steps: _late(steps, lambda step: _smallest(step["loss"])),
}


def gradients_table(results: Sequence[RowResult]) -> Table | None:
    """A line per row whose passes share weights; None if there is no such row."""
    rows = []
    for result in results:
        runs = [[step for step in read_records(run) if step.get("cosine")] for run in result.runs.values()]
        if all(runs):
            rows.append([result.label, *(cell([value(steps) for steps in runs]) for value in COLUMNS.values())])
    return Table(["", *COLUMNS], rows) if rows else None


def _early(steps: list[Step], value: Callable[[Step], float]) -> float:
    return mean(value(step) for step in steps[: _tenth(steps)])


def _late(steps: list[Step], value: Callable[[Step], float]) -> float:
    return mean(value(step) for step in steps[-_tenth(steps) :])


def _tenth(steps: list[Step]) -> int:
    return max(1, len(steps) // 10)


def _smallest(by_pass: dict[str, float]) -> float:
    """Passes are written largest first."""
    return list(by_pass.values())[-1]
