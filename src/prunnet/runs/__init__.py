"""The run folder: what a training was told, what it wrote down, and what it has come to."""

from prunnet.runs.config import TrainConfig, resolve
from prunnet.runs.presets import PRESETS
from prunnet.runs.run import Run

__all__ = ["PRESETS", "Run", "TrainConfig", "resolve"]
