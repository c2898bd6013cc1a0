"""The traced subnetwork that every exporter starts from, and what all of them share."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from prunnet._torch_export import export
from prunnet.network import Subnetwork

INPUT, OUTPUT = "images", "embedding"

Program = torch.export.ExportedProgram
Run = Callable[[Tensor], Tensor]


def trace(subnetwork: Subnetwork) -> Program:
    """Preprocessed images `[batch, C, H, W]` → L2-normalised embeddings, for any batch size, in fp32 on the CPU."""
    example = torch.zeros(2, *subnetwork.preprocessing.input_size)  # a batch of one would be taken for a constant
    return export(detached(subnetwork), example, dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))


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
