"""How a run trained: losses, conflicts and cosines over its steps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prunnet.network.capacity import format_capacity
from prunnet.report.charts import Axis, Series, line_chart

POINTS = 120  # of a curve, each the mean of as many steps as it takes


def training_charts(records: Sequence[dict[str, Any]]) -> str:
    """The charts that the records of a run allow; a run without subnetworks has no conflicts to show."""
    charts = []
    for key, title, label in (
        ("loss", "Loss of every pass", "loss"),
        ("conflicts", "Gradients in conflict", "conflicting pairs, %"),
        ("cosine", "Cosine with the dense gradient", "cosine"),
    ):
        rows = [row for row in records if row.get(key) is not None]
        if rows:
            chart = line_chart(_series(rows, key), Axis("step"), Axis(label, low=0.0), title)
            charts.append(f"<div><h3>{title}</h3>{chart}</div>")
    return f'<div class="charts three">{"".join(charts)}</div>'


def _series(rows: Sequence[dict[str, Any]], key: str) -> list[Series]:
    steps = [row["step"] for row in rows]
    if key == "conflicts":
        return [Series("pairs of passes whose gradients point apart", *_smooth(steps, [100 * r[key] for r in rows]), 4)]
    first = list(rows[0]["loss"])
    return [
        Series(_name(name), *_smooth(steps, [row[key][name] for row in rows]), 1 + first.index(name) % 6)
        for name in rows[0][key]
    ]


def _smooth(steps: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[float]]:
    parts = min(POINTS, len(values))
    means = [[float(part.mean()) for part in np.array_split(np.asarray(row, float), parts)] for row in (steps, values)]
    return means[0], means[1]


def _name(pass_name: str) -> str:
    """A pass is named by its capacity, or `random1` when it is drawn anew every step."""
    try:
        capacity = float(pass_name)
    except ValueError:
        return f"random capacity {pass_name.removeprefix('random')}"
    return "dense" if capacity == 1.0 else format_capacity(capacity)
