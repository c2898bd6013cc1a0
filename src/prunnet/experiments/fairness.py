"""Fair play: what each row was given."""

from collections.abc import Sequence
from statistics import mean

from prunnet.experiments.comparison import TUNING_SEEDS, tuning_score
from prunnet.experiments.jobs import training_seconds
from prunnet.experiments.results import RowResult
from prunnet.experiments.suite_tables import NOTHING, Table
from prunnet.runs import Run
from prunnet.training.checkpoint import latest_checkpoint

NOTE = (
    "Every row has the same images and epochs, the same network unless its label names another, and the same learning "
    "rates to choose from, with further ones beyond an end of the grid as long as that end is its best. In brackets: "
    "what each rate scored with the tuning seeds, the mean of the pairs a row is tuned by; rates are chosen on the "
    "queries that the table reports, with seeds that it does not. Every network has its batch norm adapted to training "
    "images in the end. Seconds: training steps alone, mean over seeds, on the machine as busy as it was."
)
HEADING = ("", "epochs", "images seen", "passes per step", "parameters trained", "lr (tried)", "seconds", "also gets")
_STATES = ("momentum_buffer", "exp_avg")  # one of the optimiser's per parameter that was updated


def fair_play(results: Sequence[RowResult]) -> Table:
    """A line per row: budget, learning rates, time, and what it alone gets."""
    return Table(HEADING, [_line(result) for result in results])


def _line(result: RowResult) -> list[str]:
    run = next(iter(result.runs.values()))
    config, steps = run.config, run.steps
    passes = f"{len(steps[-1]['loss'])}" if steps else NOTHING
    seconds = mean(map(training_seconds, result.runs.values()))
    return [
        result.label,
        f"{config.epochs}",
        f"{len(steps) * config.batch_size:,}",
        passes,
        _parameters(run),
        _rates(result),
        f"{seconds:.0f}",
        "; ".join(filter(None, (result.row.gets, _failures(result)))) or NOTHING,
    ]


def _parameters(run: Run) -> str:
    """Counted in the optimiser's state of the last checkpoint, so frozen ones are left out."""
    from safetensors import safe_open

    checkpoint = latest_checkpoint(run.checkpoints)
    if checkpoint is None:
        return NOTHING
    total = 0
    with safe_open(checkpoint / "state.safetensors", "pt") as file:
        for name in file.keys():  # noqa: SIM118 - it is no mapping
            if name.startswith("optimiser.") and name.rpartition(".")[2] in _STATES:
                size = 1
                for side in file.get_slice(name).get_shape():
                    size *= side
                total += size
    return f"{total:,}"


def _rates(result: RowResult) -> str:
    """`0.1 (0.03: 35.0, 0.1: 36.0, 0.3: diverged)`: the mean of the pairs tuned by, on the tuning seeds."""
    by_rate: dict[float, list[float]] = {}
    for (rate, _), run in result.tried.items():
        by_rate.setdefault(rate, []).extend([] if run is None else [tuning_score(run.matrix, result.row)])
    tried = [
        f"{rate:g}: " + ("diverged" if len(scored) < len(TUNING_SEEDS) else f"{100 * mean(scored):.1f}")
        for rate, scored in by_rate.items()
    ]
    return f"{result.rate:g} ({', '.join(tried) or 'not tuned here'})"


def _failures(result: RowResult) -> str:
    return f"diverged with seed {', '.join(map(str, result.diverged))}" if result.diverged else ""
