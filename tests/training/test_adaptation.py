"""Batch-norm statistics of a finished run: of mixed classes, and alike for the dense network and its members."""

import pytest
import torch
from tests.training.conftest import TINY

import prunnet
from prunnet.data import shuffled_loader


def test_batches_to_adapt_on_mix_the_classes() -> None:
    train = prunnet.load_data("glyphs", classes=12, images_per_class=16, size=16).train
    assert train is not None
    preprocessing = prunnet.Preprocessing((1, 16, 16))
    batches = list(shuffled_loader(train, preprocessing, batch_size=16))
    assert sum(len(batch.labels) for batch in batches) == len(train)
    assert all(len(batch.labels.unique()) > 2 for batch in batches)
    again = next(iter(shuffled_loader(train, preprocessing, batch_size=16)))
    assert torch.equal(again.indices, batches[0].indices)


def test_the_dense_network_ends_with_statistics_of_the_images_its_members_have(tmp_path) -> None:
    data = prunnet.load_data("glyphs", classes=12, images_per_class=16, size=16)
    assert data.train is not None
    backbone = prunnet.create_backbone("resnet18", in_chans=1, channels=[8, 8, 8, 8], layers=[1, 1, 1, 1])
    net = prunnet.convert(backbone, 16, preprocessing=prunnet.Preprocessing((1, 16, 16)))
    settings = {"capacities": (0.5,), "epochs": 2, "batch_size": 32, "align_batches": 0}
    prunnet.train(net, data, out=tmp_path / "run", quiet=True, **settings)
    family, expected = (prunnet.load(tmp_path / "run" / "model") for _ in range(2))
    loader = [batch.images for batch in shuffled_loader(data.train, family.preprocessing, batch_size=32)]
    prunnet.adapt_batchnorm(expected, loader, capacities=(1.0, 0.5))
    for capacity in (1.0, 0.5):
        measured, wanted = family.subnetwork(capacity).state_dict(), expected.subnetwork(capacity).state_dict()
        for name in measured:
            if "running" in name:
                torch.testing.assert_close(measured[name], wanted[name])


@pytest.mark.parametrize("batchnorm", ["train", "frozen"])
def test_evaluating_between_epochs_changes_nothing_of_the_training(glyphs, tmp_path, batchnorm: str) -> None:
    trained = []
    for every in (0, 1):
        settings = {**TINY, "batchnorm": batchnorm, "evaluate_every": every, "align_batches": 2}
        run = prunnet.train(data=glyphs, out=tmp_path / f"{every}", quiet=True, **settings)
        trained.append(run.load_network().state_dict())
    for name, tensor in trained[0].items():
        torch.testing.assert_close(trained[1][name], tensor, rtol=0, atol=0)
