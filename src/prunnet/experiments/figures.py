"""The paper's figures from the runs of a suite, each as png and svg. Drawn without pyplot, so no global state."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from prunnet._files import write_atomically
from prunnet.costs import cost_table
from prunnet.data import ImageSet, RetrievalData
from prunnet.errors import MissingExtraError
from prunnet.evaluation import embed_images
from prunnet.experiments.jobs import saved_capacities
from prunnet.experiments.paper import Pair
from prunnet.experiments.results import RowResult
from prunnet.experiments.suite_tables import column_name
from prunnet.experiments.suites import Suite
from prunnet.network.capacity import format_capacity
from prunnet.runs import Run

SHOWN_CLASSES = 8  # of the t-SNE figure
MARKERS = {1.0: "o", 0.6: "^", 0.2: "s"}
AT_ONCE = 3  # panels side by side
LEGEND_WIDTH = 2.6  # inches of a legend column
POINTS = 150  # of a curve over training
PASSES = {
    "loss": "loss of each pass",
    "norm": "gradient norm of each pass",
    "cosine": "cosine of the dense gradient and each subnetwork's",
}


def save_figure(figure: Any, folder: Path, name: str) -> None:
    """As `name`.png and `name`.svg."""
    for suffix in ("png", "svg"):
        with write_atomically(folder / f"{name}.{suffix}") as temporary:
            figure.savefig(temporary, format=suffix, dpi=150)


def panels(count: int, *, width: float = 4.6, height: float = 3.4) -> tuple[Any, list[Any]]:
    """A figure with `count` axes."""
    from matplotlib.figure import Figure

    columns = min(count, AT_ONCE)
    rows = -(-count // columns)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(count)]
    for one in axes:
        one.grid(alpha=0.3)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def legend_below(figure: Any, axes: Any) -> None:
    """One legend for all panels, so that none is covered, in as many columns as fit."""
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, int(figure.get_figwidth() / LEGEND_WIDTH))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), columns), frameon=False)


def capacity_curve(results: Sequence[RowResult], folder: Path) -> None:
    """Self-test, and cross-test against the dense gallery, over capacity (Figure 4a)."""
    figure, axes = panels(2)
    tests: tuple[tuple[str, Callable[[float], Pair]], ...] = (
        ("self-test", lambda capacity: (capacity, capacity)),
        ("cross-test, gallery by the dense network", lambda capacity: (capacity, 1.0)),
    )
    for one, (title, pair) in zip(axes, tests, strict=True):
        for number, result in enumerate(results):
            capacities = sorted({model.capacity for model in result.matrices[0].models})
            points = [(100 * c, result.values(pair(c))) for c in capacities if result.values(pair(c))]
            if len(points) > 1:
                _line(one, [x for x, _ in points], [values for _, values in points], result.label, number)
        one.set(title=title, xlabel="capacity (%)", ylabel=f"{results[0].matrices[0].metric} (%)")
    legend_below(figure, axes[0])
    save_figure(figure, folder, "capacity")


def _line(axes: Any, x: Sequence[float], values: Sequence[Sequence[float]], label: str, number: int) -> None:
    means, spread = [mean(v) for v in values], [stdev(v) if len(v) > 1 else 0.0 for v in values]
    axes.errorbar(x, means, spread, capsize=2, **line_style(number, label))


def line_style(number: int, label: str) -> dict[str, Any]:
    """Told apart beyond the ten colours there are."""
    return {"color": f"C{number % 10}", "marker": "os^DvPX"[number % 7], "label": label}


def conflicts(results: Sequence[RowResult], folder: Path) -> None:
    """Conflicting pairs of gradients in the first convolution over training (Figure 4b)."""
    curves = {result.label: _series(result, "first_layer_conflicts") for result in results}
    curves = {label: series for label, series in curves.items() if series}
    if not curves:
        return
    figure, (axes,) = panels(1, width=7)
    for number, (label, series) in enumerate(curves.items()):
        steps, values = zip(*series, strict=True)
        axes.plot(*curve(steps, values), linewidth=1.2, markevery=0.1, **line_style(number, label))
    axes.set(xlabel="step", title="conflicting gradient pairs in the first convolution")
    legend_below(figure, axes)
    save_figure(figure, folder, "conflicts")


def passes(results: Sequence[RowResult], folder: Path, key: str) -> None:
    """A panel per row with a line per pass: losses, gradient norms, or cosines to the dense gradient."""
    curves = {result.label: _series(result, key) for result in results}
    curves = {label: series for label, series in curves.items() if series}
    if not curves:
        return
    figure, axes = panels(len(curves))
    for one, (label, series) in zip(axes, curves.items(), strict=True):
        for name in series[0][1]:
            steps, values = zip(*((step, row[name]) for step, row in series), strict=True)
            one.plot(*curve(steps, values), linewidth=1.2, label=name)
        one.set(title=label, xlabel="step", ylabel=key)
        one.legend(frameon=False, fontsize="small", title="capacity")
    figure.suptitle(PASSES[key])
    save_figure(figure, folder, key)


def _series(result: RowResult, key: str) -> list[tuple[int, Any]]:
    """Step and value of the first seed's run."""
    rows = next(iter(result.runs.values())).steps
    return [(row["step"], row[key]) for row in rows if row.get(key) is not None and row[key] != {}]


def curve(steps: Sequence[int], values: Sequence[float]) -> tuple[Any, Any]:
    """Smoothed, and with no more points than a panel can show."""
    every = -(-len(steps) // POINTS)
    return steps[::every], smooth(values)[::every]


def smooth(values: Sequence[float]) -> Any:
    """The mean of the last steps, a fiftieth of the run."""
    sums = np.cumsum(np.insert(np.asarray(values, dtype=np.float64), 0, 0.0))
    end = np.arange(1, len(values) + 1)
    start = np.maximum(0, end - max(1, len(values) // 50))
    return (sums[end] - sums[start]) / (end - start)


def sweep(suite: Suite, results: Sequence[RowResult], folder: Path) -> None:
    """The suite's columns over what its rows vary: N, or α."""
    if suite.axis is None:
        return
    label, positions = suite.axis
    figure, axes = panels(2)
    kinds = ([pair for pair in suite.columns if pair[0] == pair[1]], [p for p in suite.columns if p[0] != p[1]])
    for one, pairs, title in zip(axes, kinds, ("self-test", "cross-test"), strict=True):
        for number, pair in enumerate(pairs):
            points = [(positions[result.name], result.values(pair)) for result in results if result.values(pair)]
            _line(one, [x for x, _ in points], [values for _, values in points], column_name(pair), number)
        one.set(title=title, xlabel=label, ylabel=f"{results[0].matrices[0].metric} (%)")
        one.legend(frameon=False, fontsize="small")
    save_figure(figure, folder, suite.name)


def retrieval_over_cost(results: Sequence[RowResult], folder: Path) -> None:
    """Self-tests of every row at the capacities of its matrix, over bytes and over MACs."""
    figure, axes = panels(2)
    for number, result in enumerate(results):
        run = next(iter(result.runs.values()))
        capacities = saved_capacities(run)
        costs = cost_table(run.network, capacities)
        values = [mean(result.values((capacity, capacity))) for capacity in capacities]
        style = line_style(number, result.label)
        axes[0].plot([one.bytes for one in costs], values, **style)
        axes[1].plot([one.macs for one in costs], values, **style)
    for one, label in zip(axes, ("bytes stored, half precision", "multiplications per image"), strict=True):
        one.set(xlabel=label, ylabel=f"self-test {results[0].matrices[0].metric} (%)")
    legend_below(figure, axes[0])
    save_figure(figure, folder, "cost")


def tsne_figure(run: Run, data: RetrievalData, folder: Path) -> None:
    """Gallery images of a few classes: a colour per class, a marker per capacity."""
    try:
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("scikit-learn", "figures", "the t-SNE figure") from None
    capacities = [capacity for capacity in saved_capacities(run) if capacity in MARKERS]
    images = few_classes(data.gallery)
    vectors = np.concatenate([embed_images(run.network.subnetwork(c), images).vectors.numpy() for c in capacities])
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    places = TSNE(perplexity=perplexity, random_state=0, init="pca").fit_transform(vectors)
    figure, (axes,) = panels(1, width=6, height=5)
    style = {"c": images.labels, "cmap": "tab10", "s": 14, "alpha": 0.8}
    for part, capacity in zip(np.split(places, len(capacities)), capacities, strict=True):
        axes.scatter(*part.T, marker=MARKERS[capacity], label=format_capacity(capacity), **style)
    axes.set(xticks=[], yticks=[], title=f"{images.classes} classes of {data.name} at several capacities")
    axes.legend(frameon=False)
    save_figure(figure, folder, "tsne")


def few_classes(images: ImageSet) -> ImageSet:
    """The images of `SHOWN_CLASSES` labels, evenly chosen, relabelled from 0."""
    present = np.unique(images.labels[images.labels >= 0])
    labels = present[np.linspace(0, len(present) - 1, min(SHOWN_CLASSES, len(present)), dtype=np.int64)]
    kept = images.take(np.flatnonzero(np.isin(images.labels, labels)))
    names = [images.label_names[label] for label in labels]
    return ImageSet(kept.pixels, np.searchsorted(labels, kept.labels), names, kept.ids)
