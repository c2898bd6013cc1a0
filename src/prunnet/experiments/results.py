"""What the finished runs of a comparison say."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import mean

import numpy as np
import numpy.typing as npt

from prunnet.errors import SuiteError
from prunnet.evaluation import CompatibilityMatrix
from prunnet.evaluation.bootstrap import bootstrap_intervals
from prunnet.experiments.comparison import Comparison, places_of, value_at
from prunnet.experiments.paper import Pair
from prunnet.experiments.rows import Row
from prunnet.experiments.suites import Suite
from prunnet.runs import Run

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RowResult:
    """The finished seeds of one row at its best learning rate; `tried` are the tuning runs, None for diverged ones."""

    name: str
    label: str
    row: Row
    rate: float
    runs: dict[int, Run]
    tried: dict[tuple[float, int], Run | None] = field(default_factory=dict)
    diverged: tuple[int, ...] = ()

    @cached_property
    def matrices(self) -> Sequence[CompatibilityMatrix]:
        """One per seed."""
        return [run.matrix for run in self.runs.values()]

    def means(self, pair: Pair) -> bool:
        """Whether the pair says anything: networks that never met share no space."""
        return self.row.compatible or pair[0] == pair[1]

    def values(self, pair: Pair) -> list[float]:
        """M(φq, φg) in percent, one per seed; none where the row has no such pair."""
        values = [value_at(matrix, pair) for matrix in self.matrices] if self.means(pair) else []
        return [100 * value for value in values if value is not None]

    def at(self, seeds: Collection[int]) -> "RowResult":
        """The same with these seeds alone."""
        kept = replace(self, runs={seed: run for seed, run in self.runs.items() if seed in seeds})
        read = zip(self.runs, self.matrices, strict=True)
        kept.__dict__["matrices"] = [matrix for seed, matrix in read if seed in seeds]
        return kept

    def per_query(self, pair: Pair) -> Floats | None:
        """Percent per query, averaged over seeds; None where the runs did not write it down."""
        if not self.values(pair):
            return None
        columns = []
        for matrix in self.matrices:
            if matrix.per_query is None:
                return None
            places = places_of(matrix)
            columns.append(100 * matrix.per_query[places[pair[0]], places[pair[1]]])
        return np.mean(columns, axis=0)  # type: ignore[no-any-return]


def gather(comparison: Comparison) -> list[RowResult]:
    """The rows of the suite that have a finished run, in its order."""
    results = []
    for name, label in comparison.suite.rows.items():
        jobs = comparison.seed_jobs(name)
        states = {job: comparison.state(job) for job in jobs}
        runs = {job.seed: job.run(comparison.root) for job in jobs if states[job] == "done"}
        diverged = tuple(job.seed for job in jobs if states[job] == "diverged")
        tuning = [] if comparison.tuned_in is not None else comparison.tuning(name)
        tried = {
            (job.rate, job.seed): job.run(comparison.root) if comparison.state(job) == "done" else None
            for job in tuning
        }
        if runs:
            results.append(RowResult(name, label, comparison.row(name), jobs[0].rate, runs, tried, diverged))
    if not results:
        raise SuiteError(f"{comparison.root} holds no finished run of {comparison.suite.name} at a tuned rate yet")
    return results


@dataclass(frozen=True)
class Difference:
    """Points by which a row lies above the reference, with a confidence interval where queries are known."""

    per_seed: Sequence[float]
    interval: tuple[float, float] | None

    @property
    def value(self) -> float:
        return mean(self.per_seed)

    @property
    def seeds_above(self) -> int:
        """In how many seeds the row is above."""
        return sum(value > 0 for value in self.per_seed)


COVERS = (
    "Paired over seeds and queries. Intervals are 95 % bootstrap intervals over queries, each query's value averaged "
    "over seeds first: they cover which queries were asked, not how another seed would have trained. For that the "
    "last number counts the seeds in which the row is above: a difference whose sign changes is not decided."
)


Differences = Mapping[tuple[str, Pair], Difference]
"""By name of the row and pair."""


def differences(suite: Suite, results: Sequence[RowResult], pairs: Sequence[Pair]) -> Differences:
    """Every row minus the suite's reference for it, where both have the pair."""
    known = {result.name: result for result in results}
    by_row: dict[tuple[str, Pair], Difference] = {}
    for result in results:
        reference = known.get(suite.reference_of(result.name))
        if reference is None or reference is result:
            continue
        for pair in pairs:
            if (one := difference(result, reference, pair)) is not None:
                by_row[result.name, pair] = one
    return by_row


def difference(result: RowResult, reference: RowResult, pair: Pair, samples: int = 2000) -> Difference | None:
    """`result` minus `reference` at `pair` over the seeds that both have; None where there is none, or no such pair."""
    seeds = result.runs.keys() & reference.runs.keys()
    result, reference = result.at(seeds), reference.at(seeds)
    ours, theirs = result.values(pair), reference.values(pair)
    if not ours or not theirs:
        return None
    per_seed = [a - b for a, b in zip(ours, theirs, strict=True)]
    first, second = result.per_query(pair), reference.per_query(pair)
    if first is None or second is None:
        return Difference(per_seed, None)
    if len(first) != len(second):
        raise SuiteError(f"{result.name} and {reference.name} answered other queries; they cannot be paired")
    intervals = bootstrap_intervals((first - second)[None, None], np.zeros((1, 1), dtype=np.int64), samples)
    return Difference(per_seed, (float(intervals.lower[0, 0]), float(intervals.upper[0, 0])))
