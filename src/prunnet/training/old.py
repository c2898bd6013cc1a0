"""What a finished run leaves for later ones: its family, and the classifier they can be made compatible through."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from prunnet._files import write_atomically
from prunnet.data import ImageSet
from prunnet.network import Family, Members, load_family
from prunnet.training.config import ConfigError, read_yaml

CLASSIFIER = "classifier.safetensors"


def save_classifier(classifier: nn.Linear, label_names: Sequence[str], folder: Path) -> None:
    """Keep the classifier of a run, with the names of its classes."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in classifier.state_dict().items()}
    with write_atomically(folder / CLASSIFIER) as temporary:
        save_file(tensors, temporary, metadata={"classes": json.dumps(list(label_names))})


@dataclass(frozen=True)
class OldRun:
    """An existing family, as a later run sees it."""

    folder: Path
    family: Family

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "OldRun":
        folder = Path(path)
        if not (folder / "model").is_dir():
            raise ConfigError(f"old: {folder} is no finished run (it has no model/)")
        family = load_family(folder / "model")
        older = read_yaml(folder / "config.yaml").get("old")
        if older is not None and isinstance(family, Members):  # new members beside the family of a run before it
            family = Members(family.by_capacity.values(), base=cls.load(older).family)
        return cls(folder, family)

    def classifier_for(self, images: ImageSet) -> tuple[nn.Linear, list[int]]:
        """The old classifier, and which of its classes each label of `images` is: -1 for one it does not know."""
        try:
            with safe_open(self.folder / CLASSIFIER, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                known = {name: index for index, name in enumerate(json.loads(file.metadata()["classes"]))}
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"old: {self.folder / CLASSIFIER} is missing or damaged ({error}); runs whose networks share no "
                "classifier have none, and method=sspl needs none"
            ) from None
        classifier = nn.Linear(tensors["weight"].shape[1], len(tensors["weight"]), bias="bias" in tensors)
        with torch.no_grad():
            classifier.load_state_dict(tensors)
        return classifier, [known.get(name, -1) for name in images.label_names]
