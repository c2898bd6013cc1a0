"""The curves of a report: retrieval over capacity and bytes, and how a run trained."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from prunnet.network.capacity import format_capacity
from prunnet.report.charts import Axis, Series, line_chart
from prunnet.report.summary import RunSummary

POINTS = 120  # of a curve, each the mean of as many steps as it takes


def capacity_text(summary: RunSummary) -> str:
    """How to read the curves."""
    new = (
        " Hollow points are sizes that no training step used: they were pruned, and their batch norm adapted."
        if summary.untrained
        else " To see sizes that were never trained, set evaluate_capacities when training."
    )
    return (
        "In the self-test a network searches the gallery it indexed; in the cross-test it searches the gallery of the "
        f"dense network, which is never indexed again.{new}"
    )


def capacity_charts(summary: RunSummary) -> str:
    """Self-test and cross-test over capacity, and the cross-test over bytes; sizes never trained are hollow."""
    members = sorted(summary.members, key=lambda member: member.capacity)
    x, marks = [100 * member.capacity for member in members], [member.trained for member in members]
    series = (
        Series("self-test", x, [100 * m.self_test for m in members], 2, marks, dashed=True),
        Series("cross-test, in the dense gallery", x, [100 * m.cross_test for m in members], 1, marks),
    )
    by_capacity = line_chart(
        series,
        Axis("connections kept, % (logarithmic)", _apart(x), logarithmic=True),
        Axis(f"{summary.matrix.metric}, %", low=0.0),
        "Retrieval over capacity",
    )
    kilobytes = [member.bytes / 1000 for member in members]
    by_bytes = line_chart(
        (Series("cross-test, in the dense gallery", kilobytes, [100 * m.cross_test for m in members], 1, marks),),
        Axis("size on the device, kB"),
        Axis(f"{summary.matrix.metric}, %", low=0.0),
        "Retrieval over bytes",
    )
    key = (
        '<div class="legend c0"><span><i class="dot full"></i>trained</span>'
        '<span><i class="dot"></i>never trained</span></div>'
    )
    return f'<div class="charts"><div>{by_capacity}{key}</div><div>{by_bytes}{key}</div></div>'


def _apart(values: Sequence[float], factor: float = 1.18) -> list[float]:
    """Those of the rising `values` that leave room for their text on a logarithmic axis; the last is always there."""
    shown = [values[-1]]
    for value in reversed(values[:-1]):
        if value * factor < shown[0]:
            shown.insert(0, value)
    return shown


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
