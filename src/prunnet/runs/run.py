"""The run folder: its layout, and everything that can be read from one.

runs/a/config.yaml              every setting as resolved; `prunnet train --config` reads it
runs/a/environment.json         versions, machine, command
runs/a/metrics.jsonl            one line per step and evaluation
runs/a/checkpoint/              the newest state
runs/a/model/                   the trained family, batch norm adapted
runs/a/best/                    the best so far, if evaluated on the way
runs/a/classifier.safetensors   of the training classes, if the family shares one: later runs can be compatible with it
runs/a/evaluation/              the compatibility matrix that the run ended with, as csv, json, markdown and pictures
runs/a/evaluations/             those asked for later, each in a place of its own
runs/a/embeddings/              what evaluations and reports have embedded
runs/a/plots/                   losses, conflicts, cosines
runs/a/report.html              the page about the run
runs/a/unreadable.txt           images that could not be read, if any
runs/a/diverged.txt             why the run could not go on, if it could not
"""

import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from prunnet import __version__
from prunnet._checked import load_tensors, save_tensors
from prunnet._files import locked, restore, sweep, write_atomically, write_text
from prunnet.data import ImageSet, RetrievalData
from prunnet.errors import ConfigError, DamagedError, PrunNetError
from prunnet.evaluation import CompatibilityMatrix
from prunnet.network import Family
from prunnet.runs.config import TrainConfig, resolve
from prunnet.runs.records import read_records
from prunnet.runs.settings import stored_settings, to_yaml
from prunnet.storage import load
from prunnet.storage.card import write_card
from prunnet.storage.opening import MODEL, save_bare

PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors")

State = Literal["missing", "started", "diverged", "done"]

EVALUATION = {"metric", "evaluate_capacities"}
"""What only the evaluation at the end depends on."""
MAY_CHANGE = {"root", "workers", "device", "cache", "tensorboard", "checkpoint_seconds", "strict", *EVALUATION}
"""Where, how fast and how judged: what a resumed run may do otherwise than it began."""


class Run:
    """One training on disk. What is asked for is read then; a folder that does not hold it says so in one line."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.config_file = self.folder / "config.yaml"
        self.metrics_file = self.folder / "metrics.jsonl"
        self.checkpoints = self.folder / "checkpoint"
        self.model = self.folder / MODEL
        self.best = self.folder / "best"
        self.evaluation = self.folder / "evaluation"
        self.evaluations = self.folder / "evaluations"
        self.embeddings = self.folder / "embeddings"
        self.plots = self.folder / "plots"
        self.report = self.folder / "report.html"
        self.unreadable_file = self.folder / "unreadable.txt"
        self._environment_file = self.folder / "environment.json"
        self._classifier_file = self.folder / "classifier.safetensors"
        self._matrix_file = self.evaluation / "matrix.json"
        self._divergence_file = self.folder / "diverged.txt"

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, {self.state})"

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return self.config_file.is_file()

    @property
    def state(self) -> State:
        """How far it has come."""
        if self._matrix_file.is_file():  # written last
            return "done"
        if self._divergence_file.is_file():
            return "diverged"
        return "started" if self.exists else "missing"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for this process; what a killed one has left in it is put right."""
        with locked(self.folder):
            for folder in (self.folder, self.checkpoints, self.evaluation, self.plots):
                sweep(folder)
            for folder in (self.model, self.best):
                restore(folder)
            yield

    def require_finished(self) -> "Run":
        """This run, if it is finished."""
        if self.state != "done":
            what = {"missing": "is no run", "started": "is not finished", "diverged": "has diverged"}[self.state]
            raise PrunNetError(f"{self.folder} {what}: train it first (prunnet train --out {self.folder})")
        return self

    # what it was told

    @cached_property
    def config(self) -> TrainConfig:
        """Its settings."""
        if not self.exists:
            raise ConfigError(f"{self.folder} is no run folder: it has no {self.config_file.name}")
        return resolve(stored_settings(self.config_file))

    def resumed_config(self, settings: Mapping[str, Any]) -> TrainConfig:
        """Its settings with those that a resumed run may change."""
        if not self.exists:
            raise ConfigError(f"{self.folder} holds no run to resume (no {self.config_file.name})")
        wanted = resolve(stored_settings(self.config_file), settings)
        before, now = self.config.model_dump(mode="json"), wanted.model_dump(mode="json")  # where (7, 4) is [7, 4]
        for key in TrainConfig.model_fields:
            if key not in MAY_CHANGE and before[key] != now[key]:
                raise ConfigError(
                    f"{self.folder} was started with {key}={getattr(self.config, key)!r}; "
                    "a resumed run cannot change it"
                )
        return wanted

    def evaluated_as(self, config: TrainConfig) -> bool:
        """Whether it is finished, and was evaluated as `config` asks."""
        return self.state == "done" and all(getattr(self.config, key) == getattr(config, key) for key in EVALUATION)

    def load_data(self) -> RetrievalData:
        """The data it was trained for."""
        return self.config.load_data()

    def begin(self, config: TrainConfig) -> None:
        """Write down what is about to be trained, and with what."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.state == "done" and not self.evaluated_as(config):
            self._matrix_file.unlink()  # of other settings: it is not finished until there is another
        write_text(self.config_file, to_yaml(config))
        write_text(self._environment_file, json.dumps(environment(), indent=2) + "\n")
        self.config = config

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, machine and command, as far as they were written down; nothing depends on them."""
        try:
            content = json.loads(self._environment_file.read_text())
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    # what it has come to

    @cached_property
    def network(self) -> Family:
        """The trained family."""
        return self.load_network()

    def load_network(self, backbone: nn.Module | None = None) -> Family:
        """The trained family, read from its folder; `backbone` is for one that timm cannot create."""
        if not self.model.is_dir():
            raise ConfigError(f"{self.folder} is no finished run (it has no {self.model.name}/)")
        return load(self.model, backbone)

    def save_network(self, family: Family, folder: Path | None = None) -> None:
        """Write the trained family, beside the one it extends; its card comes with its matrix."""
        old = None if self.config.old is None else Run(self.config.old).model
        save_bare(family, self.model if folder is None else folder, old)

    @cached_property
    def matrix(self) -> CompatibilityMatrix:
        """The compatibility matrix that it ended with."""
        return CompatibilityMatrix.from_json(self._matrix_file)

    def finish(self, family: Family, matrix: CompatibilityMatrix) -> None:
        """Write what the run ended with; with the matrix, which comes last, it is finished."""
        write_card(family, self.model, matrix.to_markdown())
        matrix.write(self.evaluation)
        self.network, self.matrix = family, matrix

    @property
    def records(self) -> list[dict[str, Any]]:
        """What it wrote down at every step and evaluation."""
        return read_records(self.metrics_file)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What it wrote down at every step."""
        return [row for row in self.records if "loss" in row]

    def diverge(self, reason: object) -> None:
        """Write down that the run cannot go on."""
        write_text(self._divergence_file, f"{reason}\n")

    @property
    def divergence(self) -> str:
        """Why it could not go on."""
        return self._divergence_file.read_text().strip()

    # what later runs can be compatible through

    def save_classifier(self, classifier: nn.Linear, label_names: Iterable[str]) -> None:
        """Keep the classifier that all of the family share, with the names of its classes."""
        with write_atomically(self._classifier_file) as temporary:
            save_tensors(classifier.state_dict(), temporary, {"classes": json.dumps(list(label_names))})

    def classifier_for(self, images: ImageSet) -> tuple[nn.Linear, list[int]]:
        """Its classifier, and which of its classes each label of `images` is: -1 for one it does not know."""
        try:
            tensors, metadata = load_tensors(self._classifier_file, sealed=False)  # the oldest have no checksum
            known = {str(name): index for index, name in enumerate(json.loads(metadata["classes"]))}
            classifier = nn.Linear(tensors["weight"].shape[1], len(tensors["weight"]), bias="bias" in tensors)
            classifier.load_state_dict(tensors)
        except (DamagedError, KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
            raise ConfigError(
                f"old: {self._classifier_file} is missing or damaged ({error}); runs whose networks share no "
                "classifier have none, and method=sspl needs none"
            ) from None
        return classifier, [known.get(name, -1) for name in images.label_names]


def new_folder(parent: Path, name: str) -> Path:
    """`parent`/`name`, or the first of `name`-2, `name`-3 … that is not there yet."""
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(folder for folder in (parent / name for name in names) if not folder.exists())


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
