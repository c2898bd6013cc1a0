"""What a run depends on beside its configuration."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from prunnet import __version__

PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors")


def environment() -> dict[str, Any]:
    """Versions, machine and command."""
    return {
        "prunnet": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "packages": {name: _version(name) for name in PACKAGES},
        "command": sys.argv,
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
