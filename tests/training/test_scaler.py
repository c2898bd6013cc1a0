"""Loss scaling: the factor by itself, and a training step that overflows."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.conftest import TINY
from torch import Tensor, nn

import prunnet
from prunnet.data import RetrievalData
from prunnet.errors import DivergedRunError
from prunnet.runs import Run, resolve
from prunnet.training import Trainer, train
from prunnet.training.build import build_method, build_network, prepare_batchnorm
from prunnet.training.ranks import Ranks
from prunnet.training.trainer import LossScaler


def test_an_overflow_halves_the_factor_down_to_one() -> None:
    scaler = LossScaler(True, factor=8.0)
    factors = []
    for _ in range(5):
        scaler.overflowed()
        factors.append(scaler.factor)
    assert factors == [4.0, 2.0, 1.0, 1.0, 1.0]


def test_patience_doubles_the_factor_and_an_overflow_starts_it_anew() -> None:
    scaler = LossScaler(True, factor=8.0, patience=3)
    factors = []
    for step in range(1, 9):
        if step == 3:
            scaler.overflowed()
        else:
            scaler.succeeded()
        factors.append(scaler.factor)
    assert factors == [8.0, 8.0, 4.0, 4.0, 4.0, 8.0, 8.0, 8.0]
    assert scaler.good_steps == 5


def test_a_disabled_scaler_is_neutral() -> None:
    scaler = LossScaler(False, factor=8.0, patience=1)
    for note in (scaler.succeeded, scaler.overflowed, scaler.succeeded):
        note()
        assert (scaler.factor, scaler.good_steps) == (1.0, 0)


def make_trainer(data: RetrievalData, folder: Path, **settings: Any) -> Trainer:
    config = resolve({**TINY, **settings})
    assert data.train is not None
    run = Run(folder)
    run.begin(config)
    method = build_method(config, build_network(config), data.train)
    trainer = Trainer(method, data, config, run, Ranks("cpu"), quiet=True)
    prepare_batchnorm(config, method)
    return trainer


def parameters_of(trainer: Trainer) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trainer.method.named_parameters()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("method", ["prunnet", "switchnet", "dense"])
def test_a_step_that_overflows_is_left_out_and_training_goes_on(glyphs, tmp_path, method: str) -> None:
    trainer = make_trainer(glyphs, tmp_path / "run", precision="fp16", method=method, capacities=(0.5, 0.2))
    trainer.scaler.factor = factor = 2.0**30  # the gradients of the logits are beyond 65504
    start = parameters_of(trainer)
    batch = next(iter(trainer.loader))
    row = trainer._optimise(batch)
    assert same(parameters_of(trainer), start)
    assert all(parameter.grad is None for parameter in trainer.method.parameters())
    assert not trainer.optimiser.state
    assert trainer.scaler.factor == factor / 2 and "norm" not in row

    overflows = 1
    while same(parameters_of(trainer), start):
        trainer._optimise(batch)
        overflows += trainer.scaler.good_steps == 0
        assert overflows < 30
    assert trainer.scaler.factor == factor / 2**overflows and trainer.scaler.good_steps == 1
    assert all(parameter.isfinite().all() for parameter in trainer.method.parameters())


def test_a_resumed_run_goes_on_with_its_factor(glyphs, tmp_path) -> None:
    trainer = make_trainer(glyphs, tmp_path / "run", precision="fp16")
    trainer.scaler.factor, trainer.scaler.good_steps = 2.0**7, 11
    trainer._save()
    again = make_trainer(glyphs, tmp_path / "run", precision="fp16")
    assert again.resume()
    assert (again.scaler.factor, again.scaler.good_steps) == (2.0**7, 11)


def test_clips_and_records_mean_true_sizes_whatever_the_scale(glyphs, tmp_path) -> None:
    rows, results = [], []
    for name, scaler in (("plain", LossScaler(False)), ("scaled", LossScaler(True, factor=2.0**20))):
        trainer = make_trainer(glyphs, tmp_path / name, clip=0.3, clip_passes=0.2)
        trainer.scaler = scaler
        rows.append(trainer._optimise(next(iter(trainer.loader))))
        results.append(parameters_of(trainer))
    assert rows[0]["norm"]["0.2"] == pytest.approx(0.2) and rows[1]["norm"] == pytest.approx(rows[0]["norm"])
    for name, parameter in results[0].items():
        torch.testing.assert_close(results[1][name], parameter)


class Kinked(nn.Module):
    """Its features are finite, their gradient is not: √ has no slope at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)

    def forward(self, images: Tensor) -> Tensor:
        features = self.conv(images).mean((2, 3))
        return features + (0 * features).abs().sqrt()


def test_without_half_precision_a_gradient_that_is_not_finite_ends_the_run(glyphs, tmp_path) -> None:
    net = prunnet.convert(Kinked(), 8, preprocessing=prunnet.Preprocessing((1, 16, 16)))
    with pytest.raises(DivergedRunError, match=r"step 1: the gradient of layer 'conv.weight' in pass 0 .* not finite"):
        train(net, glyphs, out=tmp_path / "run", quiet=True, capacities=(0.5,), batch_size=16)
