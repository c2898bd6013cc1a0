"""Retrieval over what a subnetwork costs: stored bytes and multiplications."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from prunnet.costs import cost_table
from prunnet.experiments.figures import legend_below, line_style, panels, save_figure
from prunnet.experiments.jobs import saved_capacities
from prunnet.experiments.results import RowResult


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
