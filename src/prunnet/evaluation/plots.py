"""Figures of the matrix. Drawn without pyplot, so no display and no global state."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prunnet._files import write_atomically
from prunnet.errors import EvaluationError
from prunnet.evaluation.render import title

if TYPE_CHECKING:
    from prunnet.evaluation.matrix import CompatibilityMatrix

SUFFIXES = ("png", "svg", "pdf")


def heatmap(matrix: "CompatibilityMatrix", path: Path) -> Path:
    """Figures in their cells; a red frame marks cross-tests below the self-test they have to reach."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    names, values = [model.name for model in matrix.models], 100 * matrix.values
    side = 1.6 + 0.75 * len(names)
    figure = Figure(figsize=(side + 1.0, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(values, cmap="viridis")
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="gallery φg", ylabel="query φq", title=title(matrix))
    middle = (values.min() + values.max()) / 2
    short = {(violation.query, violation.gallery) for violation in matrix.check().violations}
    for (row, column), value in np.ndenumerate(values):
        colour = "black" if value > middle else "white"
        weight = "bold" if row == column else "normal"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, weight=weight, fontsize=9)
        if (names[row], names[column]) in short:
            axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, fill=False, edgecolor="red", linewidth=2))
    figure.colorbar(image, ax=axes, shrink=0.8)
    return _save(figure, path)


def curve(matrix: "CompatibilityMatrix", path: Path) -> Path:
    """Self-test, and cross-test against the largest network's gallery, over capacity."""
    from matplotlib.figure import Figure

    places = [place for place, model in enumerate(matrix.models) if model.role != "old"]
    places.sort(key=lambda place: matrix.models[place].capacity)
    percent = [100 * matrix.models[place].capacity for place in places]
    largest = places[-1]
    figure = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = figure.subplots()
    lines = (
        ("self-test", "o-", places),
        (f"cross-test, gallery by {matrix.models[largest].name}", "s--", [largest] * len(places)),
    )
    for label, style, galleries in lines:
        (line,) = axes.plot(percent, 100 * matrix.values[places, galleries], style, label=label)
        if matrix.intervals is not None:
            low, high = (bound[places, galleries] for bound in (matrix.intervals.lower, matrix.intervals.upper))
            axes.fill_between(percent, 100 * low, 100 * high, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel="capacity of the query network (%)", ylabel=f"{matrix.metric} (%)", title=matrix.data)
    axes.grid(alpha=0.3)
    axes.legend()
    return _save(figure, path)


def _save(figure: Any, path: Path) -> Path:
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in SUFFIXES:
        raise EvaluationError(f"{path}: a figure ends in .{', .'.join(SUFFIXES)}")
    with write_atomically(path) as temporary:
        figure.savefig(temporary, format=suffix, dpi=150)
    return path
