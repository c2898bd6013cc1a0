"""The classifier that a family shares, kept for later runs that are to be compatible with it."""

import json
from collections.abc import Iterable
from pathlib import Path

from torch import nn

from prunnet._checked import load_tensors, save_tensors
from prunnet._files import write_atomically
from prunnet.errors import ConfigError, DamagedError


def save_classifier(classifier: nn.Linear, label_names: Iterable[str], file: Path) -> None:
    """Keep `classifier` with the names of its classes."""
    with write_atomically(file) as temporary:
        save_tensors(classifier.state_dict(), temporary, {"classes": json.dumps(list(label_names))})


def load_classifier(file: Path) -> tuple[nn.Linear, list[str]]:
    """What `save_classifier` wrote."""
    try:
        tensors, metadata = load_tensors(file, sealed=False)  # the oldest have no checksum
        names = [str(name) for name in json.loads(metadata["classes"])]
        classifier = nn.Linear(tensors["weight"].shape[1], len(tensors["weight"]), bias="bias" in tensors)
        classifier.load_state_dict(tensors)
    except (DamagedError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise ConfigError(
            f"old: {file} is missing or damaged ({error}); runs whose networks share no classifier have none, and "
            "method=sspl needs none"
        ) from None
    return classifier, names
