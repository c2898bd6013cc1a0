"""Learning-rate factors over training, as functions of the epoch with its fraction."""

import math

from prunnet.runs.config import TrainConfig


def lr_factor(config: TrainConfig, epoch: float) -> float:
    """What the base learning rate is multiplied with at `epoch`, such as 2.5 in the middle of the third."""
    if epoch < config.warmup_epochs:
        return max(epoch, 1e-3) / config.warmup_epochs
    if config.schedule == "multistep":
        return float(config.gamma ** sum(epoch >= milestone for milestone in config.milestones))
    if config.schedule == "cosine":
        start = max(config.cosine_from, config.warmup_epochs)
        progress = max(0.0, epoch - start) / max(1e-9, config.epochs - start)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return 1.0
