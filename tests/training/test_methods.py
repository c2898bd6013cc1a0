"""Every method through the one loop: it learns, leaves a family that can be loaded, and goes on after a stop."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.training.conftest import TINY

import prunnet
from prunnet.errors import ConfigError, PrunNetError
from prunnet.narrow import Members
from prunnet.network import PrunableNetwork
from prunnet.runs import Run
from prunnet.runs.config import resolve
from prunnet.storage import load as load_family
from prunnet.training import train

pytestmark = pytest.mark.slow  # a training each

SETTING: dict[str, Any] = {**TINY, "epochs": 8}
METHODS: dict[str, dict[str, Any]] = {
    "independent": {"method": "independent"},
    "joint": {"method": "joint"},
    "bct-s": {"method": "switchnet", "integrator": "sum"},
    "asymmetric-s": {"method": "switchnet", "integrator": "sum", "loss": "contrastive"},
    "ours on switchnet": {"method": "switchnet"},
    "sfsc": {"method": "sfsc"},
    "sspl": {"method": "sspl", "codewords": 8, "subspaces": 4},
    "bct": {"method": "bct", "capacities": (0.1,)},
}


@pytest.fixture(scope="module")
def old(glyphs, tmp_path_factory) -> Path:
    """A finished run that others are made compatible with."""
    folder = tmp_path_factory.mktemp("old") / "run"
    train(None, glyphs, out=folder, quiet=True, **SETTING)
    return folder


def epoch_losses(folder: Path, epoch: int) -> dict[str, float]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    of_epoch = [row["loss"] for row in rows if row["epoch"] == epoch and "loss" in row]
    return {name: float(np.mean([losses[name] for losses in of_epoch])) for name in of_epoch[0]}


@pytest.mark.parametrize("name", METHODS)
def test_it_learns_and_its_family_can_be_loaded(glyphs, old: Path, tmp_path, name: str) -> None:
    needs_old = {"old": str(old)} if name in ("sspl", "bct") else {}
    run = train(None, glyphs, out=tmp_path / "run", quiet=True, **{**SETTING, **METHODS[name], **needs_old})
    first, last = epoch_losses(run.folder, 0), epoch_losses(run.folder, SETTING["epochs"] - 1)
    assert all(last[capacity] < 0.95 * first[capacity] for capacity in first), (first, last)
    loaded = load_family(run.folder / "model")
    assert isinstance(loaded, Members) and loaded.family_id == run.network.family_id
    images = torch.randn(2, 1, 16, 16)
    for capacity in loaded.by_capacity:
        assert torch.allclose(loaded.subnetwork(capacity)(images), run.network.subnetwork(capacity)(images), atol=1e-6)
    assert (run.folder / "classifier.safetensors").exists() == (name not in ("independent", "sspl", "bct"))


@pytest.mark.parametrize("name", ["joint", "sfsc", "sspl"])
def test_a_stopped_run_ends_like_one_that_was_not(glyphs, old: Path, tmp_path, name: str) -> None:
    from prunnet.training.trainer import Trainer

    settings = {**TINY, **METHODS[name], **({"old": str(old)} if name == "sspl" else {})}
    whole = train(None, glyphs, out=tmp_path / "whole", quiet=True, **settings)
    optimise = Trainer._optimise

    def stop_after_five(self: Trainer, batch: Any) -> dict[str, Any]:
        if self.step == 5:
            raise KeyboardInterrupt
        return optimise(self, batch)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Trainer, "_optimise", stop_after_five)
        train(None, glyphs, out=tmp_path / "part", quiet=True, **settings, checkpoint_seconds=0)
    part = train(None, glyphs, out=tmp_path / "part", resume=True, quiet=True)
    np.testing.assert_array_equal(part.matrix.values, whole.matrix.values)


def test_new_members_join_the_family_they_extend(glyphs, old: Path, tmp_path) -> None:
    settings = {**SETTING, **METHODS["bct"], "old": str(old)}
    run = train(None, glyphs, out=tmp_path / "bct", quiet=True, **settings)
    assert run.network.family_id == load_family(old / "model").family_id
    assert [model.capacity for model in run.matrix.models] == [1.0, 0.5, 0.2, 0.1]
    again = prunnet.load(run.folder)  # a run that extends a run: its family is whole
    assert again.subnetwork(1.0).capacity == 1.0 and 0.1 in again.capacities
    with pytest.raises(ConfigError, match="missing or damaged"):
        Run(run.folder).classifier_for(glyphs.train)


def test_a_new_generation_is_measured_against_the_old_one(glyphs, old: Path, tmp_path) -> None:
    settings = {**SETTING, "old": str(old), "seed": 1}
    run = train(None, glyphs, out=tmp_path / "new", quiet=True, **settings)
    assert isinstance(run.network, PrunableNetwork)
    assert run.network.family_id != load_family(old / "model").family_id
    assert [(m.role, m.capacity) for m in run.matrix.models] == [
        *(("new", capacity) for capacity in (1.0, 0.5, 0.2)),
        *(("old", capacity) for capacity in (1.0, 0.5, 0.2)),
    ]
    alone = train(None, glyphs, out=tmp_path / "alone", quiet=True, **{**SETTING, "seed": 1})
    # without BCT the new space means nothing to the old classifier
    assert old_loss(run.network, old, glyphs) < old_loss(alone.network, old, glyphs)


@torch.no_grad()
def old_loss(family: Any, old: Path, data: Any) -> float:
    """Cross-entropy of the old classifier on training images as the new dense network embeds them."""
    classifier, classes = Run(old).classifier_for(data.train)
    images = family.preprocessing.batch([data.train.image(i) for i in range(len(data.train))])
    embeddings = family.subnetwork(1.0)(images, normalise=False)
    return float(F.cross_entropy(classifier(embeddings), torch.tensor(classes)[data.train.labels]))


def test_settings_that_make_no_sense_are_refused(glyphs, old: Path, tmp_path) -> None:
    for settings, message in (
        ({"method": "bct"}, "name it, old="),
        ({"method": "independent", "old": "x"}, "compatible with nothing"),
        ({"method": "joint", "capacities": "any"}, "only prunnet trains any"),
        ({"method": "sfsc", "loss": "contrastive"}, "one of prunnet and switchnet"),
        ({"method": "sfsc", "old": "x"}, "have no place for"),
        ({"loss": "contrastive", "old": "x"}, "have no place for"),
    ):
        with pytest.raises(ConfigError, match=message):
            resolve(settings)
    with pytest.raises(ConfigError, match="no finished run"):
        train(None, glyphs, out=tmp_path / "a", **{**TINY, **METHODS["bct"], "old": str(tmp_path)})
    with pytest.raises(ConfigError, match="have 16 dimensions, those to train 8"):
        train(None, glyphs, out=tmp_path / "b", **{**TINY, **METHODS["bct"], "old": str(old), "embedding_dim": 8})
    with pytest.raises(PrunNetError, match="cannot be cut into 3"):
        train(None, glyphs, out=tmp_path / "c", **{**TINY, "method": "sspl", "old": str(old), "subspaces": 3})
