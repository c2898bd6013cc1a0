"""What a comparison still has to run: learning rates tuned alike for every row, then the seeds at the best one."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from prunnet.errors import InterruptedRunError, SuiteError
from prunnet.evaluation import CompatibilityMatrix
from prunnet.experiments.jobs import Job, check_run, held, sweep_held, train_run
from prunnet.experiments.paper import Pair
from prunnet.experiments.rows import Row
from prunnet.experiments.suites import Suite
from prunnet.runs import Run
from prunnet.runs.run import State

TUNING_SEEDS = (100, 101)
WIDENED = 3  # times that a grid of learning rates may grow


@dataclass
class Comparison:
    """A suite under one common setting, in one folder.

    `tuned_in`: take each row's learning rate as it was tuned in that folder instead of tuning here.
    """

    suite: Suite
    root: Path
    setting: Mapping[str, Any]
    seeds: Sequence[int] = (0, 1, 2)
    rates: Sequence[float] = (0.03, 0.1, 0.3)
    tuned_in: Path | None = None
    _checked: set[Job] = field(default_factory=set, repr=False)
    _scores: dict[Path, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if (
            not self.seeds
            or len(set(self.seeds)) < len(self.seeds)
            or not all(isinstance(seed, int) and seed >= 0 and seed not in TUNING_SEEDS for seed in self.seeds)
        ):
            raise SuiteError(
                f"seeds must be different whole numbers from 0 on, and not {' or '.join(map(str, TUNING_SEEDS))}, "
                f"which tune; "
                f"found {', '.join(map(str, self.seeds)) or 'none'}"
            )
        if not self.rates or len(set(self.rates)) < len(self.rates) or not all(0 < r < math.inf for r in self.rates):
            listed = ", ".join(f"{rate:g}" for rate in self.rates) or "none"
            raise SuiteError(f"rates must be different positive numbers; found {listed}")

    def row(self, name: str) -> Row:
        return self.suite.definitions[name]

    def rates_of(self, name: str) -> list[float]:
        """The learning rates tried for a row: three or more are extended at an end whose rate is the best."""
        rates = sorted(float(f"{rate * self.row(name).rate_scale:g}") for rate in self.rates)
        for _ in range(WIDENED if len(rates) > 2 else 0):
            best = self._best_of(name, rates)
            if best == rates[-1]:
                rates.append(float(f"{rates[-1] * rates[-2] / rates[-3]:g}"))
            elif best == rates[0]:
                rates.insert(0, float(f"{rates[0] * rates[1] / rates[2]:g}"))
            else:
                break
        return rates

    def _best_of(self, name: str, rates: Sequence[float]) -> float | None:
        """The rate with the best mean score on the tuning seeds; None if a run is missing, or each rate diverged."""
        root = self.tuned_in or self.root
        runs = {rate: [Job(name, rate, seed).run(root) for seed in TUNING_SEEDS] for rate in rates}
        if not all(run.state in ("done", "diverged") for tried in runs.values() for run in tried):
            return None
        done = {rate: tried for rate, tried in runs.items() if all(run.state == "done" for run in tried)}
        return max(done, key=lambda rate: mean(self._score(run, name) for run in done[rate])) if done else None

    def tuning(self, name: str) -> list[Job]:
        """The runs that choose a row's learning rate; none where there is nothing to choose."""
        rates = self.rates_of(name)
        return [] if len(rates) == 1 else [Job(name, rate, seed) for seed in TUNING_SEEDS for rate in rates]

    def best_rate(self, name: str) -> float | None:
        """The rate with the best mean score on the tuning seeds; None if one is missing, or each rate diverged."""
        rates = self.rates_of(name)
        return rates[0] if len(rates) == 1 else self._best_of(name, rates)

    def check_tuned(self) -> None:
        """Refuse to start where rates are to be taken from a folder that does not have them."""
        if self.tuned_in is None:
            return
        for name in self.suite.order():
            if any(job.run(self.tuned_in).state in ("missing", "started") for job in self.tuning(name)):
                rates = ", ".join(f"{rate:g}" for rate in self.rates_of(name))
                raise SuiteError(
                    f"{name} has not been tuned over {rates} in {self.tuned_in}; run the suite there first"
                )

    def _score(self, run: Run, name: str) -> float:
        if run.folder not in self._scores:
            self._scores[run.folder] = tuning_score(run.matrix, self.row(name))
        return self._scores[run.folder]

    def seed_jobs(self, name: str) -> list[Job]:
        """The runs of the table; none before the rate is known."""
        rate = self.best_rate(name)
        return [] if rate is None else [Job(name, rate, seed) for seed in self.seeds]

    def failed(self, name: str) -> bool:
        """Whether a row diverged at every rate."""
        jobs = [] if self.tuned_in is not None else self.tuning(name)
        ended = all(self.state(job) in ("done", "diverged") for job in jobs)
        return bool(jobs) and ended and self.best_rate(name) is None

    def settings(self, job: Job) -> dict[str, Any] | None:
        """What to train `job` with; None while the run it has to be compatible with is not there."""
        row = self.row(job.row)
        settings = {**self.setting, **row.settings, "lr": job.rate, "seed": job.seed}
        if row.backbone_options:
            settings["backbone_options"] = {**settings.get("backbone_options", {}), **row.backbone_options}
        if row.old is not None:
            rate = self.best_rate(row.old)
            old = None if rate is None else Job(row.old, rate, job.seed).run(self.root)
            if old is None or old.state != "done":
                return None
            settings["old"] = str(old.folder)
        return settings

    def state(self, job: Job) -> State:
        """How far `job` has come; a run of another configuration in its place is refused."""
        run = job.run(self.root)
        if run.exists and job not in self._checked and (settings := self.settings(job)) is not None:
            check_run(run, settings)
            self._checked.add(job)
        return run.state

    def jobs(self) -> list[Job]:
        """Every run known so far: tuning first, then seed by seed, so that an unfinished table is even."""
        names = self.suite.order()
        tuning = [] if self.tuned_in is not None else [job for name in names for job in self.tuning(name)]
        by_seed = sorted((job for name in names for job in self.seed_jobs(name)), key=lambda job: job.seed)
        return list(dict.fromkeys(tuning + by_seed))

    @property
    def total(self) -> int:
        """How many runs there will be in all."""
        names = self.suite.order()
        tuning = 0 if self.tuned_in is not None else sum(len(self.tuning(name)) for name in names)
        return tuning + len(self.seeds) * len(names)

    def ready(self) -> list[Job]:
        """Runs that are not finished and could be trained now."""
        return [
            job for job in self.jobs() if self.state(job) in ("missing", "started") and self.settings(job) is not None
        ]


def value_at(matrix: CompatibilityMatrix, pair: Pair) -> float | None:
    """M(φq, φg) as a fraction; a network of the old family stands in where the new one has none at that capacity."""
    places = places_of(matrix)
    if not all(capacity in places for capacity in pair):
        return None
    return float(matrix.values[places[pair[0]], places[pair[1]]])


def tuning_score(matrix: CompatibilityMatrix, row: Row) -> float:
    """What a learning rate is chosen by: the mean of the row's pairs."""
    values = [value for pair in row.tuned_by if (value := value_at(matrix, pair)) is not None]
    if not values:
        raise SuiteError(f"a matrix of {matrix.data} has none of the pairs {row.tuned_by} that its row is tuned by")
    return mean(values)


def places_of(matrix: CompatibilityMatrix) -> dict[float, int]:
    """Capacity → place in the matrix, the new family's before the old one's."""
    old_first = sorted(enumerate(matrix.models), key=lambda placed: placed[1].role != "old")
    return {model.capacity: place for place, model in old_first}


def run_all(comparison: Comparison, say: Callable[[str], None]) -> None:
    """Train everything that is missing. Several processes may do so at once: each takes what no other one is at."""
    sweep_held(comparison.root)
    while ready := comparison.ready():
        for job in ready:
            with held(comparison.root, job) as mine:
                if not mine:
                    continue
                if comparison.state(job) in ("missing", "started"):
                    _run(comparison, job, say)
                break
        else:
            with held(comparison.root, ready[0], wait=True):
                pass  # another process has just ended one


def _run(comparison: Comparison, job: Job, say: Callable[[str], None]) -> None:
    settings = comparison.settings(job)
    assert settings is not None
    finished = sum(comparison.state(other) in ("done", "diverged") for other in comparison.jobs())
    say(f"[{finished + 1}/{comparison.total}] {job}")
    run = job.run(comparison.root)
    try:
        train_run(run, settings)
    except InterruptedRunError:
        raise InterruptedRunError(f"{job} was stopped and saved; the same command goes on from there") from None
    if run.state == "diverged":
        say(f"    diverged: {run.divergence}")
        return
    figures = ((pair, value_at(run.matrix, pair)) for pair in comparison.row(job.row).tuned_by)
    say("    " + ", ".join(f"{100 * v:.1f} ({q:g} → {g:g})" for (q, g), v in figures if v is not None))
