"""Tensors of a module and tensors of a file: which are stored, and whether they fit."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from prunnet.errors import FamilyError


def saved_tensors(module: nn.Module) -> dict[str, Tensor]:
    """What a file holds of `module`, as its own tensors: shared ones once, under their first name."""
    saved = module.state_dict()
    named = dict([*module.named_parameters(), *module.named_buffers()])
    return {name: tensor.detach() for name, tensor in named.items() if name in saved}


def check_fit(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse tensors that are not those of the network."""
    advice = "the backbone given is another one, or the folder is damaged"
    for name, tensor in expected.items():
        if name not in stored:
            raise FamilyError(f"{folder} lacks the tensor {name}; {advice}")
        if stored[name].shape != tensor.shape:
            shapes = f"{tuple(stored[name].shape)}, the network expects {tuple(tensor.shape)}"
            raise FamilyError(f"{folder}: {name} has shape {shapes}; {advice}")
        if stored[name].is_floating_point() != tensor.is_floating_point():
            raise FamilyError(f"{folder}: {name} is {stored[name].dtype}, the network expects {tensor.dtype}; {advice}")
    if extra := next((name for name in stored if name not in expected), None):
        raise FamilyError(f"{folder} has the tensor {extra}, which the network does not know; {advice}")


@torch.no_grad()
def fill(expected: Mapping[str, Tensor], stored: Mapping[str, Tensor], folder: Path) -> None:
    """Copy `stored` into the tensors of a module, if they are those that it `expected`."""
    check_fit(expected, stored, folder)
    for name, tensor in expected.items():
        tensor.copy_(stored[name])
