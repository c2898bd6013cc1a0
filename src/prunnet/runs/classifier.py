"""The classifier that a family shares, kept for later runs that are to be compatible with it."""

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from prunnet._files import write_atomically
from prunnet.errors import ConfigError


def save_classifier(classifier: nn.Linear, label_names: Iterable[str], file: Path) -> None:
    """Keep `classifier` with the names of its classes."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in classifier.state_dict().items()}
    with write_atomically(file) as temporary:
        save_file(tensors, temporary, metadata={"classes": json.dumps(list(label_names))})


def load_classifier(file: Path) -> tuple[nn.Linear, list[str]]:
    """What `save_classifier` wrote."""
    try:
        with safe_open(file, "pt") as content:
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
            names = [str(name) for name in json.loads(content.metadata()["classes"])]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"old: {file} is missing or damaged ({error}); runs whose networks share no classifier have none, and "
            "method=sspl needs none"
        ) from None
    classifier = nn.Linear(tensors["weight"].shape[1], len(tensors["weight"]), bias="bias" in tensors)
    with torch.no_grad():
        classifier.load_state_dict(tensors)
    return classifier, names
