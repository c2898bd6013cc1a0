"""`--dry-run`: what a comparison has run, what is left, and how long that may take, judged by what has been run."""

from statistics import mean

from prunnet.experiments.comparison import Comparison
from prunnet.experiments.jobs import Job, training_seconds


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
        tried = f"{sum(job in finished for job in tuning)}/{len(tuning)} rates tried, " if tuning else ""
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
