"""Training: one loop for every method, in run folders that explain and resume themselves."""

from prunnet.training.config import ConfigError, TrainConfig, resolve
from prunnet.training.presets import PRESETS
from prunnet.training.run import Run, train
from prunnet.training.trainer import InterruptedRunError, Trainer, TrainingError

__all__ = [
    "PRESETS",
    "ConfigError",
    "InterruptedRunError",
    "Run",
    "TrainConfig",
    "Trainer",
    "TrainingError",
    "resolve",
    "train",
]
