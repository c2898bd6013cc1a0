"""A run may start from a file of weights, or from those that timm has for its backbone."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import prunnet
from prunnet.runs import resolve
from prunnet.training.build import build_network

BACKBONE = "test_resnet"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(7)
    file = tmp_path_factory.mktemp("weights") / "model.safetensors"
    save_file({n: t.clone() for n, t in prunnet.create_backbone(BACKBONE).state_dict().items()}, file)
    return file


@pytest.mark.parametrize("how", ["weights", "pretrained"])
def test_training_starts_from_the_weights(how: str, weights: Path) -> None:
    overlay = {"pretrained_cfg_overlay": {"file": str(weights), "num_classes": 0}}  # as if timm had fetched them
    settings: dict[str, Any] = {
        "weights": {"weights": str(weights)},
        "pretrained": {"pretrained": True, "backbone_options": overlay},
    }[how]
    common = {"backbone": BACKBONE, "input_size": (3, 32, 32), "embedding_dim": 8, "seed": 1}
    started, anew = build_network(resolve({**common, **settings})), build_network(resolve(common))
    torch.manual_seed(7)
    for name, expected in prunnet.create_backbone(BACKBONE).state_dict().items():
        assert torch.equal(started.backbone.state_dict()[name], expected)
    assert (started.score_start, anew.score_start) == ("magnitude", "random")
    assert any(not torch.equal(a, b) for a, b in zip(started.parameters(), anew.parameters(), strict=True))


def test_weights_that_are_not_at_hand_are_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "prunnet", "train", "--out", "a", "--pretrained", "--backbone", "resnet10t"]
    options = {"env": {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}, "cwd": tmp_path}
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 2 and not (tmp_path / "a").exists()
    assert done.stderr.splitlines()[-1].startswith("prunnet: pretrained: timm has no weights of resnet10t at hand")
