"""`prunnet.train`: a run folder from a network and data, resumable at any moment.

runs/a/config.yaml          as resolved; `prunnet train --config` reads it
runs/a/environment.json     versions, machine, command
runs/a/metrics.jsonl        one line per step and evaluation
runs/a/checkpoint/          the newest state
runs/a/model/               the trained family, batch norm adapted; best/ the best so far, if evaluated on the way
runs/a/classifier.safetensors   of the training classes, if the family shares one: later runs can be compatible with it
runs/a/evaluation/          the compatibility matrix as csv, json, markdown and pictures
runs/a/plots/               losses, conflicts, cosines
"""

import json
import os
import platform
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

import torch

from prunnet import __version__
from prunnet._files import write_atomically
from prunnet.data import Batch, RetrievalData, load, shuffled_loader
from prunnet.evaluation import CompatibilityMatrix, evaluate
from prunnet.methods import Method, PrunNet, ScoreMapsNetwork
from prunnet.network import Family, Members, PrunableNetwork, adapt_batchnorm, save, save_members
from prunnet.network import load as load_family
from prunnet.network.backbones import recipe_of
from prunnet.training.build import build_method, build_network
from prunnet.training.config import ConfigError, TrainConfig, read_yaml, resolve, to_yaml
from prunnet.training.old import OldRun, save_classifier
from prunnet.training.ranks import Ranks
from prunnet.training.records import plot_records, read_records
from prunnet.training.trainer import Trainer, TrainingError

MAY_CHANGE = {"root", "workers", "device", "cache", "tensorboard", "checkpoint_seconds", "strict"}
"""Where and how fast: what a resumed run may do otherwise than it began."""


@dataclass(frozen=True)
class Run:
    """A finished run: its folder, the trained family and its compatibility matrix."""

    folder: Path
    network: Family
    matrix: CompatibilityMatrix


def train(
    network: PrunableNetwork | str | None = None,
    data: RetrievalData | str | None = None,
    *,
    out: str | os.PathLike[str],
    resume: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Train `network` on `data` and leave a run folder in `out`.

    network: a converted network (trained in place), the name of a timm model, or None for the settings' own.
    data: loaded data, what `prunnet.data.load` takes, or None for the settings' own.
    resume: go on with the run in `out`; a run that is finished is returned as it is.
    settings: any of `TrainConfig`, such as `epochs=20, capacities="any", lr=0.05`.
    """
    folder = Path(out)
    given = dict(settings)
    if isinstance(network, str):
        given["backbone"] = network
    if isinstance(data, str):
        given["data"] = data
    if isinstance(network, PrunableNetwork):
        recipe = recipe_of(network.backbone) or {"name": type(network.backbone).__name__, "options": {}}
        given |= {"backbone": recipe["name"], "backbone_options": recipe["options"], "ranking": network.ranking}
        given |= {
            "structured": network.structured,
            "embedding_dim": network.head.embedding_dim,
            "input_size": network.preprocessing.input_size,
        }
    if isinstance(data, RetrievalData):
        given["data"] = data.name
    config = _resumed_config(folder, given) if resume else resolve(given)
    if not resume and (folder / "config.yaml").exists():
        raise ConfigError(f"{folder} already holds a run; resume it, or choose another folder")
    with Ranks(config.device) as ranks:
        loaded = data if isinstance(data, RetrievalData) else load_data(config)
        net = network if isinstance(network, PrunableNetwork) else build_network(config)
        return _train(net.to(ranks.device), loaded, config, folder, ranks, resume=resume, quiet=quiet)


def load_data(config: TrainConfig) -> RetrievalData:
    """The data of `config`."""
    return load(config.data, root=config.root, cache=config.cache, **config.data_options)


def _train(
    network: PrunableNetwork,
    data: RetrievalData,
    config: TrainConfig,
    folder: Path,
    ranks: Ranks,
    *,
    resume: bool,
    quiet: bool,
) -> Run:
    if data.train is None:
        raise TrainingError(f"{data.name} has no training images")
    old = None if config.old is None else OldRun.load(config.old)
    method = build_method(config, network, data.train, old).to(ranks.device)
    if config.batchnorm == "synced":
        if ranks.device.type != "cuda":
            raise ConfigError("batchnorm: synced needs CUDA; use frozen or train")
        method = torch.nn.SyncBatchNorm.convert_sync_batchnorm(method)  # type: ignore[no-untyped-call]
    family = method.family
    if not (isinstance(family, Members) and family.base is not None):
        family.family_id = secrets.token_hex(8)  # training makes another space
    if isinstance(family, PrunableNetwork):
        family.statistics.clear()
        family.capacities = method.options.capacities.reported if isinstance(method, PrunNet) else ()
    if ranks.is_main:
        folder.mkdir(parents=True, exist_ok=True)
        _write_text(folder / "config.yaml", to_yaml(config))
        _write_text(folder / "environment.json", json.dumps(environment(), indent=2) + "\n")
    finisher = _Finisher(method, data, config, folder, ranks, old)
    trainer = Trainer(method, data, config, folder, ranks, after_epoch=finisher.after_epoch, quiet=quiet)
    if resume and trainer.resume():
        if trainer.done and finisher.done:
            return finisher.finished()
    else:
        method.prepare(batch.images for batch in finisher.training_images())
    trainer.run()
    return finisher.finish()


class _Finisher:
    """Adaptive BN, evaluation and saving: after an epoch when asked, and at the end."""

    def __init__(
        self, method: Method, data: RetrievalData, config: TrainConfig, folder: Path, ranks: Ranks, old: OldRun | None
    ) -> None:
        self.method, self.data, self.config, self.folder, self.ranks, self.old = (
            method,
            data,
            config,
            folder,
            ranks,
            old,
        )
        self.family = method.family
        self.model = folder / "model"
        self.matrix = folder / "evaluation" / "matrix.json"

    @property
    def done(self) -> bool:
        """Whether an earlier call has left everything."""
        return self.matrix.is_file() and self.model.is_dir()

    def finished(self) -> Run:
        """What that call left."""
        family = self.family
        if _is_prunable(family):
            family = load_family(self.model, family.backbone)  # which has the adapted statistics too
        return Run(self.folder, family, CompatibilityMatrix.from_json(self.matrix))

    def after_epoch(self, epoch: int, step: int) -> None:
        every, last = self.config.evaluate_every, epoch + 1 == self.config.epochs
        if not every or (epoch + 1) % every or last:
            return
        if self.ranks.is_main:
            matrix = self._evaluate()
            value = float(matrix.values[:, 0].mean())  # every capacity queries the dense gallery
            rows = read_records(self.folder)
            best = max((row["evaluation"] for row in rows if "evaluation" in row), default=-1.0)
            with (self.folder / "metrics.jsonl").open("a") as lines:
                lines.write(json.dumps({"step": step, "epoch": epoch, "evaluation": value}) + "\n")
            if value > best:
                self._save(self.folder / "best")
            if isinstance(self.family, PrunableNetwork):
                self.family.statistics.clear()
        self.ranks.barrier()

    def finish(self) -> Run:
        """The trained family with its matrix; other ranks wait for the main one and then evaluate nothing."""
        if self.ranks.is_main:
            matrix = self._evaluate()
            self._save(self.model)
            if self.method.classifier is not None and self.data.train is not None:
                save_classifier(self.method.classifier, self.data.train.label_names, self.folder)
            target = self.matrix.parent
            target.mkdir(exist_ok=True)
            matrix.to_csv(target / "matrix.csv")
            matrix.to_markdown(target / "matrix.md")
            matrix.heatmap(target / "matrix.png")
            matrix.curve(target / "curve.png")
            plot_records(self.folder)
            matrix.to_json(self.matrix)
        self.ranks.barrier()
        self.method.eval()
        return Run(self.folder, self.family, CompatibilityMatrix.from_json(self.matrix))

    def training_images(self) -> Iterator[Batch]:
        """As many as `adapt_batches` asks for, preprocessed as for inference."""
        assert self.data.train is not None
        config = self.config
        loader = shuffled_loader(
            self.data.train, self.family.preprocessing, config.batch_size, config.workers, on_error="skip"
        )
        return islice(loader, config.adapt_batches)

    def _save(self, folder: Path) -> None:
        if _is_prunable(self.family):
            save(self.family, folder)
        elif isinstance(self.family, Members):
            save_members(self.family, self.family.by_capacity, folder)
        else:
            save_members(self.family, (1.0, *self.family.capacities), folder)

    def _evaluate(self) -> CompatibilityMatrix:
        capacities = self._capacities()
        if isinstance(self.family, PrunableNetwork):
            # The dense network has statistics from training, of augmented images and weights now gone. Subnetworks that
            # are adapted to images as they are agree with it only if it is adapted to them too.
            subnetworks = {*capacities, *self.family.capacities} - {1.0}
            dense = {1.0} if self.family.capacities else set()
            if subnetworks:
                adapt_batchnorm(self.family, self.training_images(), capacities=subnetworks | dense)
        self.method.eval()
        another = self.old is not None and self.old.family.family_id != self.family.family_id
        return evaluate(
            self.family,
            self.data,
            capacities,
            self.config.metric,
            old=self.old.family if self.old is not None and another else None,
            old_capacities=(1.0, *self.old.family.capacities) if self.old is not None else (),
            workers=self.config.workers,
            device=self.ranks.device,
        )

    def _capacities(self) -> tuple[float, ...]:
        """Those asked for, of those there are."""
        available = (1.0, *self.family.capacities)
        wanted = self.config.evaluate_capacities or available
        return wanted if _is_prunable(self.family) else tuple(c for c in wanted if c in available)


def _is_prunable(family: Family) -> TypeGuard[PrunableNetwork]:
    """Whether it has a subnetwork at any capacity; one with a score map per capacity has not."""
    return isinstance(family, PrunableNetwork) and not isinstance(family, ScoreMapsNetwork)


def _resumed_config(folder: Path, given: Mapping[str, Any]) -> TrainConfig:
    if not (folder / "config.yaml").is_file():
        raise ConfigError(f"{folder} holds no run to resume (no config.yaml)")
    stored = read_yaml(folder / "config.yaml")
    saved, wanted = resolve(stored), resolve(stored, given)
    for key in TrainConfig.model_fields:
        if key not in MAY_CHANGE and getattr(saved, key) != getattr(wanted, key):
            raise ConfigError(
                f"{folder} was started with {key}={getattr(saved, key)!r}; a resumed run cannot change it"
            )
    return wanted


def environment() -> dict[str, Any]:
    """What a run depends on beside its configuration."""
    packages = {}
    for name in ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors"):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "missing"
    return {
        "prunnet": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "packages": packages,
        "command": sys.argv,
    }


def _write_text(path: Path, text: str) -> None:
    with write_atomically(path) as temporary:
        temporary.write_text(text)
