"""The runs of a comparison on disk: where each lies, whether it is finished, and whether it is the one wanted.

DIR/<row>/lr-<rate>/seed-<seed>/    a run folder of `prunnet.train`
DIR/<suite>/                        tables and figures made from them
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunnet._files import locked
from prunnet.errors import BusyError, DivergedError, DivergedRunError, SuiteError
from prunnet.narrow import Members
from prunnet.runs import Run, resolve
from prunnet.runs.run import EVALUATION, MAY_CHANGE
from prunnet.training import train

HELD = ".jobs"


@dataclass(frozen=True)
class Job:
    """One run: a row at one learning rate with one seed."""

    row: str
    rate: float
    seed: int

    def __str__(self) -> str:
        return f"{self.row} lr {self.rate:g} seed {self.seed}"

    def run(self, root: Path) -> Run:
        """Its run, wherever it is with that."""
        return Run(root / self.row / f"lr-{self.rate:g}" / f"seed-{self.seed}")


def saved_capacities(run: Run) -> list[float]:
    """The capacities of a finished run's matrix that it trained itself, not an older run."""
    capacities = sorted({model.capacity for model in run.matrix.models if model.role != "old"}, reverse=True)
    family = run.network
    return [c for c in capacities if c in family.by_capacity] if isinstance(family, Members) else capacities


def check_run(run: Run, settings: Mapping[str, Any]) -> None:
    """Refuse a run whose configuration is another one than that of `settings`."""
    if not run.exists:
        return
    stored, expected = (_comparable(config.model_dump(mode="json")) for config in (run.config, resolve(settings)))
    for key, value in expected.items():
        if stored[key] != value:
            raise SuiteError(
                f"{run.folder} was trained with {key}={stored[key]!r}, but {key}={value!r} is wanted; "
                "move it away, or choose another --out"
            )


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in MAY_CHANGE - EVALUATION}
    if kept.get("old"):
        kept["old"] = "/".join(Path(kept["old"]).parts[-3:])  # the same run, wherever the folder has been moved
    return kept


def train_run(run: Run, settings: Mapping[str, Any]) -> None:
    """Train, or go on with, `run`; a divergence is written down there instead of raised."""
    told = {key: value for key, value in settings.items() if key in MAY_CHANGE} if run.exists else settings
    try:
        train(out=run.folder, resume=run.exists, quiet=True, **told)
    except (DivergedRunError, DivergedError) as error:
        run.diverge(error)


def training_seconds(run: Run) -> float:
    """Time spent in training steps, loading and evaluation apart."""
    return float(sum(run.config.batch_size / row["images_per_second"] for row in run.steps))


@contextmanager
def held(root: Path, job: Job, *, wait: bool = False) -> Iterator[bool]:
    """Hold `job` for this process, if no other one does; the system lets go of it when the process ends, however."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(root / HELD / f"{job.row}_{job.rate:g}_{job.seed}", wait=wait))
        except BusyError:
            mine = False
        else:
            mine = True
        yield mine


def sweep_held(root: Path) -> None:
    """Remove what processes left that were killed while they held a job that had ended."""
    for lock in (root / HELD).glob(".*.lock"):
        with suppress(BusyError), locked(lock.with_name(lock.name[1:].removesuffix(".lock"))):
            pass  # which removes it
