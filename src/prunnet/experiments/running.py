"""`prunnet.compare`: run what a suite lacks, or say what that is, then write its tables and figures."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from prunnet.errors import SuiteError
from prunnet.experiments.comparison import Comparison, run_all
from prunnet.experiments.jobs import Job, training_seconds
from prunnet.experiments.rows import FOUR
from prunnet.experiments.suite_report import write_suite
from prunnet.experiments.suites import Suite, find_suite
from prunnet.network.capacity import format_capacity
from prunnet.runs import PRESETS, resolve


def compare(
    suite: str | Suite,
    *,
    out: str | os.PathLike[str],
    seeds: Sequence[int] = (0, 1, 2),
    rates: Sequence[float] | None = None,
    preset: str | None = None,
    rows: Collection[str] = (),
    tuned_in: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    report_only: bool = False,
    say: Callable[[str], None] = print,
    **settings: Any,
) -> Path:
    """Train every row of `suite` under one setting and write its tables and figures; returns their folder.

    settings: any of `TrainConfig`, for all rows alike, on top of `preset`. What is finished is not run again, so that
    the same call goes on where it stopped; several processes may make it at once and share the work. Every row tries
    all `rates` (default: 0.3, 1 and 3 times the setting's `lr`) on two tuning seeds, then runs `seeds` at its best,
    unless they were `tuned_in` another folder. `rows`: train only these. `dry_run` says what there is to do;
    `report_only` writes from what has been run.
    """
    table = find_suite(suite) if isinstance(suite, str) else suite
    setting = _setting(table, preset, settings)
    table = _distinct(table, setting)
    comparison = Comparison(
        suite=table,
        root=Path(out),
        setting=setting,
        seeds=tuple(seeds),
        rates=tuple(rates) if rates is not None else _around(resolve(setting).lr),
        tuned_in=None if tuned_in is None else Path(tuned_in),
    )
    folder = comparison.root / table.name
    wanted = replace(comparison, suite=_only(table, rows)) if rows else comparison
    if not report_only:
        wanted.check_tuned()
    if dry_run:
        say(describe_plan(wanted))
        return folder
    if not report_only:
        run_all(wanted, say)
    return write_suite(comparison, folder, say)


def _only(suite: Suite, rows: Collection[str]) -> Suite:
    if unknown := [name for name in rows if name not in suite.rows]:
        raise SuiteError(f"{suite.name} has no row {unknown[0]!r}; its rows are {', '.join(suite.rows)}")
    return replace(suite, rows={name: label for name, label in suite.rows.items() if name in rows})


def _distinct(suite: Suite, setting: Mapping[str, Any]) -> Suite:
    """Without rows that train what one before them does: what `setting` leaves open may be what a row asks for."""
    kept: dict[str, Any] = {}
    for name in suite.rows:
        row = suite.definitions[name]
        trained = resolve(setting, row.settings, {"old": row.old}), row.backbone_options, row.rate_scale
        if trained not in kept.values():
            kept[name] = trained
    return replace(suite, rows={name: suite.rows[name] for name in kept})


def _setting(suite: Suite, preset: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What all rows have in common; refused where it would be what the rows differ in."""
    if preset is not None and preset not in PRESETS:
        raise SuiteError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
    for name in suite.order():
        if taken := [key for key in settings if key in (*suite.definitions[name].settings, "lr", "seed", "old")]:
            raise SuiteError(f"{taken[0]} is what the rows of {suite.name} are made of ({name}), not a common setting")
    common = PRESETS[preset] if preset else {}
    trained = tuple(common.get("capacities", FOUR))
    if trained != FOUR and any(suite.definitions[name].settings.get("capacities") == FOUR for name in suite.order()):
        raise SuiteError(
            f"the rows of {suite.name} train {', '.join(map(format_capacity, FOUR))}, "
            f"but {preset} is made for {', '.join(map(format_capacity, trained))}; no suite has these"
        )
    setting = {**common, **settings}
    resolve(setting)
    return setting


def _around(rate: float) -> tuple[float, ...]:
    return tuple(float(f"{factor * rate:g}") for factor in (0.3, 1, 3))


def describe_plan(comparison: Comparison) -> str:
    """A line per row, then the time left."""
    names = comparison.suite.order()
    width = max(map(len, names))
    lines = [f"{comparison.suite.name}: {comparison.suite.title}; {comparison.total} runs in {comparison.root}"]
    seconds: dict[str, float] = {}
    left: dict[str, int] = {}
    for name in names:
        tuning = [] if comparison.tuned_in is not None else comparison.tuning(name)
        rate = comparison.best_rate(name)
        seeded = comparison.seed_jobs(name)
        jobs = list(dict.fromkeys(tuning + seeded))
        finished = [job for job in jobs if comparison.state(job) in ("done", "diverged")]
        times = [_seconds(comparison, job) for job in jobs if comparison.state(job) == "done"]
        if times:
            seconds[name] = mean(times)
        left[name] = len(tuning) + len(comparison.seeds) - len(finished)
        tried = f"{sum(job in finished for job in tuning)}/{len(tuning)} tuning runs, " if tuning else ""
        best = f"lr {rate:g}" if rate is not None else "lr not known"
        ran = f"{sum(job in finished for job in seeded)}/{len(comparison.seeds)} seeds"
        known = f"{seconds[name]:.0f} s a run" if name in seconds else "not run yet"
        old = f"; needs {comparison.row(name).old}" if comparison.row(name).old else ""
        lines.append(f"{name:<{width}}  {tried}{best}; {ran}; {known}{old}")
    total = sum(left.values())
    if total and seconds:
        usual = mean(seconds.values())
        hours = sum(count * seconds.get(name, usual) for name, count in left.items()) / 3600
        lines.append(f"{total} runs left, about {hours:.1f} h in one process (rows not run yet: as long as the others)")
    else:
        lines.append(f"{total} runs left")
    return "\n".join(lines)


def _seconds(comparison: Comparison, job: Job) -> float:
    return training_seconds(job.run(comparison.root))
