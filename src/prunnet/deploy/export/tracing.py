"""The traced subnetwork that every exporter starts from, and what all of them share."""

import copy
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from prunnet.network import Subnetwork

INPUT, OUTPUT = "images", "embedding"

Program = torch.export.ExportedProgram
Run = Callable[[Tensor], Tensor]


def trace(subnetwork: Subnetwork) -> Program:
    """Preprocessed images `[batch, C, H, W]` → L2-normalised embeddings, for any batch size, in fp32 on the CPU."""
    example = torch.zeros(2, *subnetwork.preprocessing.input_size)  # a batch of one would be taken for a constant
    with quiet(), torch.no_grad():
        return torch.export.export(
            detached(subnetwork), (example,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},)
        )


def detached(subnetwork: Subnetwork) -> Subnetwork:
    """A copy for inference in fp32 on the CPU, which does not warn."""
    copied = copy.deepcopy(subnetwork).cpu().float().eval().requires_grad_(False)
    copied.adapted = True
    return copied


def input_shape(program: Program) -> torch.Size:
    """The shape of the example the program was traced with."""
    (images,), _ = program.example_inputs
    shape: torch.Size = images.shape
    return shape


@contextmanager
def quiet() -> Iterator[None]:
    """Keep from the user what exporters tell each other."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            warnings.filterwarnings("ignore", ".*LeafSpec.*is deprecated", FutureWarning)  # torch, of torch
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
