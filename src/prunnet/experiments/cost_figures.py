"""Retrieval over what a subnetwork costs: stored bytes and multiplications."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from prunnet.experiments.figures import legend_below, line_style, panels, save_figure
from prunnet.experiments.results import RowResult
from prunnet.experiments.runs import saved_family
from prunnet.network import Family, PrunableNetwork, convert
from prunnet.network.cost import Cost, cost


def retrieval_over_cost(results: Sequence[RowResult], folder: Path) -> None:
    """Self-tests of every row at the capacities of its matrix, over bytes and over MACs."""
    figure, axes = panels(2)
    for number, result in enumerate(results):
        family, capacities = saved_family(next(iter(result.runs.values())))
        costs = [member_cost(family, capacity) for capacity in capacities]
        values = [mean(result.values((capacity, capacity))) for capacity in capacities]
        style = line_style(number, result.label)
        axes[0].plot([one.bytes for one in costs], values, **style)
        axes[1].plot([one.macs for one in costs], values, **style)
    for one, label in zip(axes, ("bytes stored, half precision", "multiplications per image"), strict=True):
        one.set(xlabel=label, ylabel=f"self-test {results[0].matrices[0].metric} (%)")
    legend_below(figure, axes[0])
    save_figure(figure, folder, "cost")


def member_cost(family: Family, capacity: float) -> Cost:
    """Of the subnetwork, or of a separate network: a narrower one as it is, one with a score map without its zeros."""
    if isinstance(family, PrunableNetwork):
        return cost(family, capacity)
    member = family.subnetwork(capacity)
    whole = convert(member.backbone, member.head.embedding_dim, preprocessing=member.preprocessing)
    masked = any((weight == 0).any() for weight in whole.weights.values())
    return cost(whole, capacity if masked else 1.0)
