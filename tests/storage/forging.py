"""Folders that say something else under checksums that fit: what comes after the checksums has to see it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from prunnet._checked import SEAL, file_digest, load_tensors, save_tensors, seal


def forge(folder: Path, change: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> None:
    """Another config, and other tensors if there are any; None takes a key away."""
    file, weights = folder / "config.json", folder / "model.safetensors"
    config = {**json.loads(file.read_text()), **change}
    config = {key: value for key, value in config.items() if value is not None or key not in change}
    sealed = config.pop(SEAL, None) is not None
    file.write_text(json.dumps(seal(config) if sealed else config))
    if weights.is_file():
        before, stamp = load_tensors(weights, sealed=False)
        own = {name: tensor.clone() for name, tensor in before.items()}
        save_tensors(own if tensors is None else tensors, weights, {**stamp, "config": file_digest(file)})
