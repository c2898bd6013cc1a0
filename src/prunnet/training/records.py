"""What a run writes down while it trains: `metrics.jsonl`, TensorBoard on request, and plots at the end."""

import json
from pathlib import Path
from typing import Any

from prunnet.errors import MissingExtraError


class Records:
    """Appends one JSON object per logged step to `metrics.jsonl`."""

    def __init__(self, folder: Path, *, resume_at: int | None, tensorboard: bool = False) -> None:
        self.file = folder / "metrics.jsonl"
        kept = [row for row in read_records(folder) if resume_at is not None and row["step"] <= resume_at]
        self.file.write_text("".join(json.dumps(row) + "\n" for row in kept))
        self._board = _board(folder / "tensorboard") if tensorboard else None

    def write(self, row: dict[str, Any]) -> None:
        """Log one step, or one evaluation."""
        with self.file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")
        if self._board is not None:
            for name, value in _scalars(row):
                self._board.add_scalar(name, value, row["step"])

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's `metrics.jsonl`; a last line cut off by a crash is left out."""
    file = folder / "metrics.jsonl"
    rows = []
    for line in file.read_text().splitlines() if file.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows


def _scalars(row: dict[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    scalars: list[tuple[str, float]] = []
    for key, value in row.items():
        if isinstance(value, dict):
            scalars += _scalars(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and key not in ("step", "epoch"):
            scalars.append((prefix + key, float(value)))
    return scalars


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError("tensorboard", "tensorboard", "tensorboard=true") from error
    return SummaryWriter(str(folder))


def plot_records(folder: Path) -> list[Path]:
    """Loss curves, conflicting pairs and cosines over training, as png files in `folder`/plots."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in read_records(folder) if "loss" in row]
    written = []
    for key, title in (
        ("loss", "loss of the dense network and each subnetwork"),
        ("cosine", "cosine of the dense gradient and each subnetwork's"),
        ("norm", "gradient norm of each pass"),
        ("conflicts", "share of conflicting gradient pairs"),
    ):
        present = [row for row in rows if row.get(key) is not None]
        if not present:
            continue
        figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
        steps = [row["step"] for row in present]
        first = present[0][key]
        for name in first if isinstance(first, dict) else [None]:
            values = [row[key].get(name) if name is not None else row[key] for row in present]
            axes.plot(steps, values, linewidth=1, label=name)
        axes.set(xlabel="step", title=title)
        axes.spines[["top", "right"]].set_visible(False)
        if isinstance(first, dict):
            axes.legend(title="capacity", frameon=False)
        path = folder / "plots" / f"{key}.png"
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, dpi=130)
        pyplot.close(figure)
        written.append(path)
    return written
