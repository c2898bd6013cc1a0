"""What most examples start from: a trained family, such as `prunnet demo` leaves in demo/run, and its data."""

import argparse
import sys
from pathlib import Path

import torch
from torch import Tensor

import prunnet
from prunnet.data import RetrievalData


def run_folder(description: str | None) -> Path:
    """What `--run` says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--run", type=Path, default=Path("demo/run"), help="folder of a finished training run")
    run: Path = parser.parse_args().run
    if prunnet.Run(run).state != "done":
        sys.exit(f"{run} holds no trained family: call `prunnet demo` first, or name a run of yours with --run")
    (run / "examples").mkdir(exist_ok=True)
    return run


def family(run: Path) -> tuple[prunnet.Family, RetrievalData]:
    """The family in `run` and the data it was trained for."""
    return prunnet.load(run), prunnet.Run(run).load_data()


def training_batches(net: prunnet.Family, data: RetrievalData, images: int = 1280) -> tuple[Tensor, ...]:
    """Some training images in batches, to adapt batch norm on: mixed, and without labels."""
    assert data.train is not None
    mixed = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(0))[:images]
    return net.preprocessing.batch([data.train.image(int(i)) for i in mixed]).split(64)
