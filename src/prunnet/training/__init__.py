"""Training: one loop for every method, in run folders that explain and resume themselves."""

from prunnet.training.start import train
from prunnet.training.trainer import Trainer

__all__ = ["Trainer", "train"]
