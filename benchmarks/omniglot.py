"""Which way of training a family is best, on real drawings: retrieval of unseen alphabets of Omniglot.

    python benchmarks/omniglot.py tune   --root OMNIGLOT --runs runs/omniglot   # one seed per method and learning rate
    python benchmarks/omniglot.py table  --root OMNIGLOT --runs runs/omniglot   # three more seeds at the best rate
    python benchmarks/omniglot.py whole  --root OMNIGLOT --runs runs/omniglot --methods prunnet,any
    python benchmarks/omniglot.py report --runs runs/omniglot                   # tables from what has been run

Every method gets the same network, images, epochs and choice of learning rates. Runs that are finished are not
repeated, so each command continues where it was stopped; several processes may share the work (`--share 0/2` and
`--share 1/2`).
OMNIGLOT is a folder or .npz file as `prunnet data list` describes it.
"""

import argparse
import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

import prunnet
from prunnet.data import RetrievalData
from prunnet.evaluation import CompatibilityMatrix

RATES = (0.03, 0.1, 0.3)
TUNING_SEED, SEEDS = 100, (0, 1, 2)
CAPACITIES = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.05)
PAPER = (0.8, 0.6, 0.4, 0.2)
METHODS: dict[str, dict[str, Any]] = {
    "dense": {"method": "dense"},
    "prunnet": {"capacities": PAPER},
    "prunnet-paper": {"capacities": PAPER, "normalise_step": False},
    "prunnet-released": {"capacities": PAPER, "rule": "released"},
    "mean": {"capacities": PAPER, "integrator": "mean"},
    "direct": {"capacities": PAPER, "integrator": "direct"},
    "frozen-scores": {"capacities": PAPER, "frozen_scores": True},
    "any": {"capacities": "any"},
    "any-mean": {"capacities": "any", "integrator": "mean"},
    "any-distilled": {"capacities": "any", "distillation": 1.0},
    "any-shared": {"capacities": "any", "shared": "mean"},
    "any-shared-distilled": {"capacities": "any", "shared": "mean", "distillation": 1.0},
}
SETTING: dict[str, Any] = {
    "backbone": "resnet18",
    "backbone_options": {
        "in_chans": 1,
        "channels": [16, 32, 64, 128],
        "layers": [1, 1, 1, 1],
        "stem_type": "deep",
        "stem_width": 8,
    },
    "input_size": (1, 28, 28),
    "embedding_dim": 128,
    "batch_size": 64,
    "weight_decay": 5e-4,
    "schedule": "cosine",
    "augmentation": {"scale": (0.7, 1.0), "hflip": 0.0},
    "evaluate_capacities": CAPACITIES,
}


def load(root: str, whole: bool) -> RetrievalData:
    """All of Omniglot, or every seventh training class and every fourth character to retrieve."""
    data = prunnet.load_data("omniglot", root=root)
    if whole:
        return data
    assert data.train is not None
    labels = data.train.labels
    kept = np.flatnonzero(labels % 7 == 0)
    names = [name for label, name in enumerate(data.train.label_names) if label % 7 == 0]
    images = np.stack([np.asarray(data.train.image(i)) for i in kept])
    train = prunnet.data.ImageSet.from_arrays(images, labels[kept] // 7, names, [data.train.ids[i] for i in kept])

    def thin(images: prunnet.data.ImageSet) -> prunnet.data.ImageSet:
        return images.take(np.flatnonzero(images.labels % 4 == 0))

    return replace(data, train=train, query=thin(data.query), gallery=thin(data.gallery))


def run(folder: Path, data: RetrievalData, method: str, rate: float, seed: int, epochs: int) -> CompatibilityMatrix:
    """The matrix of one run, trained unless it is there already."""
    matrix = folder / "evaluation" / "matrix.json"
    if not matrix.exists():
        settings = {**SETTING, **METHODS[method], "lr": rate, "seed": seed, "epochs": epochs}
        started = (folder / "config.yaml").exists()
        prunnet.train(None, data, out=folder, resume=started, quiet=True, **({} if started else settings))
    found = CompatibilityMatrix.from_json(matrix)
    print(folder.name, " ".join(f"{value:.1f}" for value in row(found)), flush=True)
    return found


def row(matrix: CompatibilityMatrix) -> list[float]:
    """mAP of: dense, 20 % self, 20 % → dense, 10 % → dense, 5 % → dense."""
    pairs = ((1.0, 1.0), (0.2, 0.2), (0.2, 1.0), (0.1, 1.0), (0.05, 1.0))
    return [100 * matrix.at(query, gallery) for query, gallery in pairs]


def finished(runs: Path) -> Iterator[tuple[str, float, int, bool, CompatibilityMatrix]]:
    for file in sorted(runs.glob("*/evaluation/matrix.json")):
        method, rate, seed, *whole = file.parent.parent.name.split("_")
        yield method, float(rate), int(seed), bool(whole), CompatibilityMatrix.from_json(file)


def best_rates(runs: Path) -> dict[str, float]:
    """Per method the rate with the best mean of dense and 20 % → dense on the tuning seed."""
    scores: dict[str, dict[float, float]] = {}
    for method, rate, seed, whole, matrix in finished(runs):
        if seed == TUNING_SEED and not whole:
            found = row(matrix)
            scores.setdefault(method, {})[rate] = found[0] + found[2]
    return {method: max(rates, key=rates.__getitem__) for method, rates in scores.items()}


def report(runs: Path) -> None:
    """Mean and spread over seeds as markdown, every run as csv."""
    rates = best_rates(runs)
    heading = "dense | 20 % self | 20 % → dense | 10 % → dense | 5 % → dense"
    with (runs / "runs.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["method", "lr", "seed", "whole", *heading.split(" | ")])
        for method, rate, seed, whole, matrix in finished(runs):
            lines.writerow([method, rate, seed, int(whole), *(f"{value:.2f}" for value in row(matrix))])
    for whole in (False, True):
        grouped: dict[str, list[list[float]]] = {}
        for method, rate, seed, is_whole, matrix in finished(runs):
            if is_whole == whole and seed != TUNING_SEED and rate == rates.get(method):
                grouped.setdefault(method, []).append(row(matrix))
        if not grouped:
            continue
        print(f"\n{'All of Omniglot' if whole else 'Subset'}: mAP (%), mean ± standard deviation over seeds\n")
        print(f"| method | lr | seeds | {heading} |\n|---|---:|---:|---:|---:|---:|---:|---:|")
        for method in METHODS:
            if rows := grouped.get(method):
                cells = [
                    f"{mean(column):.1f}" + (f" ± {stdev(column):.1f}" if len(rows) > 1 else "")
                    for column in zip(*rows, strict=True)
                ]
                print(f"| {method} | {rates[method]:g} | {len(rows)} | {' | '.join(cells)} |")
    (runs / "best_rates.json").write_text(json.dumps(rates, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=("tune", "table", "whole", "report"))
    parser.add_argument("--root", help="Omniglot")
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--share", default="0/1", help="this process's share of the runs, such as 0/2")
    options = parser.parse_args()
    options.runs.mkdir(parents=True, exist_ok=True)
    if options.stage == "report":
        report(options.runs)
        return
    whole = options.stage == "whole"
    methods = options.methods.split(",")
    if options.stage == "tune":
        jobs = [(method, rate, TUNING_SEED) for rate in RATES for method in methods]
    else:
        rates = best_rates(options.runs)
        jobs = [(method, rates[method], seed) for seed in (SEEDS[:1] if whole else SEEDS) for method in methods]
    part, parts = map(int, options.share.split("/"))
    data = load(options.root, whole)
    for method, rate, seed in jobs[part::parts]:
        name = f"{method}_{rate:g}_{seed}" + ("_whole" if whole else "")
        run(options.runs / name, data, method, rate, seed, options.epochs or (6 if whole else 12))


if __name__ == "__main__":
    main()
