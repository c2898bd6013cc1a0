"""Devices by the names that users give them."""

import torch

from prunnet.errors import ConfigError


def device_named(name: str, local_rank: int = 0) -> torch.device:
    """`auto`, `cpu`, `cuda` (that of this rank) or `cuda:1`, if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"there is no device {name!r}; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"there is no device {name!r}: no CUDA device is available; use cpu")
    if device.index is not None and device.index >= max(1, torch.cuda.device_count()):
        raise ConfigError(f"there is no device {name!r}: there are {torch.cuda.device_count()} of them")
    return torch.device("cuda", local_rank) if name == "cuda" else device
