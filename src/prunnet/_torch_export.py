"""torch.export without what exporters tell each other."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


def export(module: nn.Module, images: Tensor, *, dynamic_shapes: Any = None) -> torch.export.ExportedProgram:
    """`module` as torch traces it on `images`."""
    with quiet(), torch.no_grad():
        return torch.export.export(module, (images,), dynamic_shapes=dynamic_shapes)


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
