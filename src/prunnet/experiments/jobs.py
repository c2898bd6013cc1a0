"""The runs of a comparison on disk: where each lies, whether it is finished, and whether it is the one wanted.

DIR/<row>/lr-<rate>/seed-<seed>/    a run folder of `prunnet.train`
DIR/<suite>/                        tables and figures made from them
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunnet.errors import DivergedError, DivergedRunError, SuiteError
from prunnet.narrow import Members
from prunnet.runs import Run, resolve
from prunnet.runs.run import MAY_CHANGE
from prunnet.training import train


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
    kept = {key: value for key, value in config.items() if key not in MAY_CHANGE}
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
def locked(root: Path, job: Job, *, wait: bool = False) -> Iterator[bool]:
    """Hold `job` for this process, if no other one does; the system lets go of it when the process ends, however."""
    import fcntl

    file = root / ".locks" / f"{job.row}_{job.rate:g}_{job.seed}"
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_CREAT | os.O_RDWR)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
