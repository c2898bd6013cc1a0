"""Which tensors of a network a `.prun` file holds, and how."""

from collections.abc import Collection
from typing import NamedTuple

from torch import Tensor, nn

from prunnet.errors import FamilyError
from prunnet.network import batchnorm
from prunnet.storage.folders import saved_tensors


class Tensors(NamedTuple):
    """The tensors of a network by name: those that are pruned, those of each band, and all others."""

    layers: dict[str, Tensor]
    statistics: dict[str, Tensor]
    rest: dict[str, Tensor]

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the header."""
        return (*self.layers, *self.statistics, *self.rest)


def tensors_of(network: nn.Module, prunable: Collection[str]) -> Tensors:
    """Sort what a file holds of `backbone` and `head`; `prunable` names the layers."""
    kept = {name: tensor for name, tensor in saved_tensors(network).items() if not name.startswith("scores.")}
    running = batchnorm.buffers(batchnorm.layers(network))
    statistics = {name: kept[name] for name in running if kept[name].is_floating_point()}
    rest = {name: tensor for name, tensor in kept.items() if name not in running and name not in prunable}
    for name, tensor in rest.items():
        if not tensor.is_floating_point() or not tensor.numel():
            found = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
            raise FamilyError(f"{name} is {found}; a .prun file holds floating-point tensors that are not empty")
    return Tensors({name: kept[name] for name in prunable if name in kept}, statistics, rest)


def shapes_of(tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}
