"""The runs of a comparison on disk: where each lies, whether it is finished, and whether it is the one wanted.

DIR/<row>/lr-<rate>/seed-<seed>/    a run folder of `prunnet.train`
DIR/<suite>/                        tables and figures made from them
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prunnet._files import write_atomically
from prunnet.evaluation import CompatibilityMatrix, EvaluationError
from prunnet.experiments.suites import SuiteError
from prunnet.network import Family, Members, load_family
from prunnet.training import TrainingError, resolve, train
from prunnet.training.config import read_yaml
from prunnet.training.records import read_records
from prunnet.training.run import MAY_CHANGE

State = Literal["missing", "started", "diverged", "done"]


@dataclass(frozen=True)
class Job:
    """One run: a row at one learning rate with one seed."""

    row: str
    rate: float
    seed: int

    def __str__(self) -> str:
        return f"{self.row} lr {self.rate:g} seed {self.seed}"

    def folder(self, root: Path) -> Path:
        """Where its run lies."""
        return root / self.row / f"lr-{self.rate:g}" / f"seed-{self.seed}"


def state_of(folder: Path) -> State:
    """How far the run in `folder` has come."""
    if (folder / "evaluation" / "matrix.json").is_file():
        return "done"
    if (folder / "diverged.txt").is_file():
        return "diverged"
    return "started" if (folder / "config.yaml").is_file() else "missing"


def matrix_of(folder: Path) -> CompatibilityMatrix:
    """The matrix of a finished run."""
    return CompatibilityMatrix.from_json(folder / "evaluation" / "matrix.json")


def saved_family(folder: Path) -> tuple[Family, list[float]]:
    """The family of a finished run, and the capacities of its matrix that lie in this folder, not in an older run's."""
    family = load_family(folder / "model")
    capacities = sorted({model.capacity for model in matrix_of(folder).models if model.role != "old"}, reverse=True)
    if isinstance(family, Members):
        capacities = [capacity for capacity in capacities if capacity in family.by_capacity]
    return family, capacities


def check_run(folder: Path, wanted: Mapping[str, Any]) -> None:
    """Refuse a run whose configuration is another one than `wanted`."""
    if not (folder / "config.yaml").is_file():
        return
    found, expected = (
        _comparable(resolve(layer).model_dump(mode="json")) for layer in (read_yaml(folder / "config.yaml"), wanted)
    )
    for key, value in expected.items():
        if found[key] != value:
            raise SuiteError(
                f"{folder} was trained with {key}={found[key]!r}, but {key}={value!r} is wanted; "
                "move it away, or choose another --out"
            )


def _comparable(config: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in MAY_CHANGE}
    if kept.get("old"):
        kept["old"] = "/".join(Path(kept["old"]).parts[-3:])  # the same run, wherever the folder has been moved
    return kept


def train_run(folder: Path, settings: Mapping[str, Any]) -> None:
    """Train, or go on with, the run in `folder`; a divergence is written down there instead of raised."""
    started = (folder / "config.yaml").is_file()
    given = {key: value for key, value in settings.items() if key in MAY_CHANGE} if started else settings
    try:
        train(out=folder, resume=started, quiet=True, **given)
    except TrainingError as error:
        if not any(folder.glob("diverged-step-*")):
            raise
        _write_divergence(folder, error)
    except EvaluationError as error:
        if "diverged" not in str(error):
            raise
        _write_divergence(folder, error)


def _write_divergence(folder: Path, error: Exception) -> None:
    with write_atomically(folder / "diverged.txt") as temporary:
        temporary.write_text(f"{error}\n")


def training_seconds(folder: Path, batch_size: int) -> float:
    """Time spent in training steps, loading and evaluation apart."""
    steps = (row for row in read_records(folder) if "images_per_second" in row)
    return float(sum(batch_size / row["images_per_second"] for row in steps))


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
