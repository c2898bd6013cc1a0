"""Retrieval over capacity and over bytes."""

from collections.abc import Sequence

from prunnet.report.charts import Axis, Series, line_chart
from prunnet.report.summary import RunSummary


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
    chosen = [values[-1]]
    for value in reversed(values[:-1]):
        if value * factor < chosen[0]:
            chosen.insert(0, value)
    return chosen
