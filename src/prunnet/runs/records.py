"""What a run writes down while it trains: `metrics.jsonl`, and TensorBoard on request."""

import json
from pathlib import Path
from typing import Any

from prunnet._files import write_text
from prunnet.errors import MissingExtraError


class Records:
    """Appends one JSON object per step, or evaluation, to `file`."""

    def __init__(self, file: Path, *, resume_at: int | None, tensorboard: bool = False) -> None:
        self.file = file
        kept = [row for row in read_records(file) if resume_at is not None and row["step"] <= resume_at]
        write_text(file, "".join(json.dumps(row) + "\n" for row in kept))
        self._board = _board(file.parent / "tensorboard") if tensorboard else None

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


def read_records(file: Path) -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl` up to the first damaged line, such as a last one cut off by a crash."""
    rows: list[dict[str, Any]] = []
    for line in file.read_bytes().splitlines() if file.is_file() else ():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict) or not isinstance(row.get("step"), int):
            break
        rows.append(row)
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
