"""Losses, conflicts, cosines and gradient norms over training, as pictures. Drawn without pyplot: no global state."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prunnet._files import write_atomically

TITLES = {
    "loss": "loss of the dense network and each subnetwork",
    "cosine": "cosine of the dense gradient and each subnetwork's",
    "norm": "gradient norm of each pass",
    "conflicts": "share of conflicting gradient pairs",
    "start": "share of each mask that was kept from the start",
}


def plot_records(records: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """A png file in `folder` for each of `TITLES` that the `records` of a run have."""
    rows = {key: [row for row in records if row.get(key) is not None] for key in TITLES}
    return [_plot(rows[key], key, folder / f"{key}.png") for key in TITLES if rows[key]]


def _plot(rows: Sequence[dict[str, Any]], key: str, path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    steps, first = [row["step"] for row in rows], rows[0][key]
    if isinstance(first, dict):
        for name in first:
            axes.plot(steps, [row[key].get(name) for row in rows], linewidth=1, label=name)
        axes.legend(title="capacity", frameon=False)
    else:
        axes.plot(steps, [row[key] for row in rows], linewidth=1)
    axes.set(xlabel="step", title=TITLES[key])
    axes.spines[["top", "right"]].set_visible(False)
    with write_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
    return path
