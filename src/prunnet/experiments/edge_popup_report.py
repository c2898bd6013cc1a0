"""Runs the edge-popup study seed by seed, and draws Figure 2 from what there is."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from prunnet._files import write_atomically
from prunnet.data import RetrievalData
from prunnet.errors import PrunNetError
from prunnet.experiments.edge_popup import STRATEGIES, Strategy, Study, classification_split, run_strategy
from prunnet.experiments.jobs import Job, held
from prunnet.network.capacity import format_capacity

Trial = tuple[Strategy, int]
"""Strategy and seed."""
Accuracies = dict[Trial, dict[float, float]]
"""Of every trial, by capacity."""


def run_study(
    data: RetrievalData,
    out: Path,
    study: Study,
    seeds: Sequence[int],
    say: Callable[[str], None] = print,
    *,
    dry_run: bool = False,
    report_only: bool = False,
) -> Path:
    """Search what `out` lacks of every strategy with every seed; returns the folder of table and figure.

    Several processes may do so at once. `dry_run` only says what is missing, `report_only` only draws what is there.
    """
    folder = out / "edge-popup"
    check_same_study(folder / "study.json", {"data": data.name, **asdict(study)}, keep=not (dry_run or report_only))
    trials = [(strategy, seed) for seed in seeds for strategy in STRATEGIES]
    if dry_run:
        for trial in trials:
            if missing := set(study.capacities) - read_accuracies(folder, trial).keys():
                say(f"missing: {trial[0]}, seed {trial[1]}, {', '.join(map(format_capacity, sorted(missing)))}")
        return folder
    if not report_only:
        _search(data, folder, study, trials, say)
    results = {trial: accuracies for trial in trials if (accuracies := read_accuracies(folder, trial))}
    if not results:
        raise PrunNetError(f"nothing has been run in {folder}")
    write_results(results, folder / "results.csv")
    write_table(results, folder / "table.md")
    draw(results, folder / "figures")
    return folder


def _search(
    data: RetrievalData, folder: Path, study: Study, trials: Sequence[Trial], say: Callable[[str], None]
) -> None:
    """What is missing; each process takes what no other one is at, and waits for the others in the end."""
    split = None
    for wait in (False, True):
        for number, (strategy, seed) in enumerate(trials, start=1):
            file = accuracies_file(folder, (strategy, seed))
            with held(folder, Job(strategy, study.lr, seed), wait=wait) as mine:
                accuracies = read_accuracies(folder, (strategy, seed))
                if not mine or accuracies.keys() >= set(study.capacities):
                    continue
                split = split or classification_split(data, study.size)
                say(f"[{number}/{len(trials)}] {strategy}, seed {seed}")
                for capacity, accuracy in run_strategy(
                    split, study, strategy, seed, known=set(accuracies), state=file.with_suffix("")
                ):
                    say(f"    {100 * accuracy:.1f} at {format_capacity(capacity)}")
                    accuracies[capacity] = accuracy
                    with write_atomically(file) as temporary:
                        temporary.write_text(json.dumps({str(c): round(a, 5) for c, a in accuracies.items()}) + "\n")


def accuracies_file(folder: Path, trial: Trial) -> Path:
    """What one strategy has found with one seed."""
    strategy, seed = trial
    return folder / "found" / f"{strategy.replace(',', '').replace(' ', '-')}-seed-{seed}.json"


def read_accuracies(folder: Path, trial: Trial) -> dict[float, float]:
    """Capacity → accuracy."""
    file = accuracies_file(folder, trial)
    return {float(capacity): a for capacity, a in json.loads(file.read_text()).items()} if file.is_file() else {}


def check_same_study(file: Path, settings: dict[str, Any], keep: bool) -> None:
    """Results of one folder come from one setting, which is kept beside them."""
    settings = json.loads(json.dumps(settings))
    if not file.is_file():
        if keep:
            with write_atomically(file) as temporary:
                temporary.write_text(json.dumps(settings, indent=2) + "\n")
        return
    before = json.loads(file.read_text())
    for name, value in settings.items():
        if before.get(name) != value:
            raise PrunNetError(
                f"{file.parent} holds a study with {name} = {before.get(name)}, not {value}: choose another --out"
            )


def write_results(results: Accuracies, file: Path) -> None:
    with write_atomically(file) as temporary, temporary.open("w", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["strategy", "seed", "capacity", "accuracy"])
        for (strategy, seed), accuracies in results.items():
            writer.writerows([strategy, seed, f"{c:g}", f"{a:.5f}"] for c, a in accuracies.items())


def spread(results: Accuracies, strategy: Strategy) -> dict[float, tuple[float, float]]:
    """Mean and standard deviation of the accuracy (%) over seeds, by capacity."""
    runs = [accuracies for (name, _), accuracies in results.items() if name == strategy]
    by_capacity = {c: [100 * run[c] for run in runs if c in run] for c in sorted({c for run in runs for c in run})}
    return {c: (mean(values), stdev(values) if len(values) > 1 else 0.0) for c, values in by_capacity.items()}


def write_table(results: Accuracies, file: Path) -> None:
    capacities = sorted({c for accuracies in results.values() for c in accuracies}, reverse=True)
    seeds = len({seed for _, seed in results})
    lines = [
        f"Accuracy (%), mean ± standard deviation over {seeds} seeds\n",
        f"| pruning | {' | '.join(map(format_capacity, capacities))} |",
        "|---|" + "---:|" * len(capacities),
    ]
    for strategy in STRATEGIES:
        cells = spread(results, strategy)
        shown = [f"{cells[c][0]:.1f} ± {cells[c][1]:.1f}" if c in cells else "–" for c in capacities]
        lines.append(f"| {strategy} | {' | '.join(shown)} |")
    with write_atomically(file) as temporary:
        temporary.write_text("\n".join(lines) + "\n")


def draw(results: Accuracies, folder: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for strategy in STRATEGIES:
        cells = spread(results, strategy)
        capacities = [100 * capacity for capacity in cells]
        middle, half = [value for value, _ in cells.values()], [deviation for _, deviation in cells.values()]
        axes.plot(capacities, middle, marker="o", label=strategy)
        low, high = ([m + sign * h for m, h in zip(middle, half, strict=True)] for sign in (-1, 1))
        axes.fill_between(capacities, low, high, alpha=0.2)
    axes.set(xlabel="connections kept (%)", ylabel="accuracy (%)", title="edge-popup on Conv-8")
    axes.legend(title="pruning")
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"edge-popup.{suffix}", dpi=150)
