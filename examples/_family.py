"""What most examples start from: a trained family, such as `prunnet demo` leaves in demo/run, and its data."""

import argparse
import sys
from pathlib import Path

import torch
import yaml
from torch import Tensor

import prunnet
from prunnet.data import RetrievalData


def run_folder(description: str | None) -> Path:
    """What `--run` says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--run", type=Path, default=Path("demo/run"), help="folder of a finished training run")
    run: Path = parser.parse_args().run
    if not (run / "model").is_dir():
        sys.exit(f"{run} holds no trained family: call `prunnet demo` first, or name a run of yours with --run")
    (run / "examples").mkdir(exist_ok=True)
    return run


def family(run: Path) -> tuple[prunnet.PrunableNetwork, RetrievalData]:
    """The family in `run` and the data it was trained for."""
    config = yaml.safe_load((run / "config.yaml").read_text())
    data = prunnet.load_data(config["data"], config["root"], **config["data_options"])
    return prunnet.load(run / "model"), data


def training_batches(net: prunnet.PrunableNetwork, data: RetrievalData, images: int = 1280) -> tuple[Tensor, ...]:
    """Some training images in batches, for `adapt_batchnorm`: mixed, and without labels."""
    assert data.train is not None
    chosen = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))[:images]
    return net.preprocessing.batch([data.train.image(int(i)) for i in chosen]).split(64)
