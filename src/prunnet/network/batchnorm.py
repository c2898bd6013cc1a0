"""Adaptive batch norm: every subnetwork has activations of its own, so it needs statistics of its own.

The one place that knows about batch-norm layers. Statistics are named as in the network: `backbone.bn1.running_mean`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunnet._progress import track
from prunnet.errors import CapacityError, ImageError
from prunnet.network.family import ADAPT_BATCHES, Family
from prunnet.network.functional import embed_with, evaluating, masked
from prunnet.network.ranking import Masks

Buffers = dict[str, Tensor]

_CONSTANT = 1e-4  # of a norm's ε: what varies less is under 1 % of its output


class Statistics(nn.Module):
    """Adapted running means and variances, by capacity. They move, and are stored in state dicts, with their network:
    `statistics.0.2.backbone.bn1.running_mean`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._by_capacity: dict[float, Buffers] = {}

    def __contains__(self, capacity: float) -> bool:
        return capacity in self._by_capacity

    def __iter__(self) -> Iterator[float]:
        return iter(self._by_capacity)

    def __len__(self) -> int:
        return len(self._by_capacity)

    def get(self, capacity: float) -> Buffers | None:
        return self._by_capacity.get(capacity)

    def put(self, capacity: float, buffers: Mapping[str, Tensor]) -> None:
        self._by_capacity[capacity] = dict(buffers)

    def clear(self) -> None:
        """Forget everything, as when the weights change."""
        self._by_capacity.clear()

    def tensors(self) -> Buffers:
        """All of them, by capacity and name: `0.2.backbone.bn1.running_mean`."""
        return {
            f"{capacity!r}.{name}": tensor
            for capacity, buffers in self._by_capacity.items()
            for name, tensor in buffers.items()
        }

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Statistics":
        for buffers in self._by_capacity.values():
            buffers.update({name: fn(tensor) for name, tensor in buffers.items()})
        return super()._apply(fn, recurse)  # type: ignore[no-any-return,no-untyped-call]

    def _save_to_state_dict(self, destination: dict[str, Tensor], prefix: str, keep_vars: bool) -> None:  # noqa: ARG002
        destination.update({prefix + name: tensor.detach() for name, tensor in self.tensors().items()})

    def _load_from_state_dict(self, state_dict: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
        """Whatever capacities the state dict has, these are the ones there are now."""
        self.clear()
        for key, tensor in state_dict.items():
            if match := _STORED.fullmatch(key.removeprefix(prefix)) if key.startswith(prefix) else None:
                self._by_capacity.setdefault(float(match[1]), {})[match[2]] = tensor.detach().clone()


_STORED = re.compile(r"([0-9.e+-]+?)\.((?:backbone|head)\..+)")


def layers(module: nn.Module) -> dict[str, _BatchNorm]:
    """The batch-norm layers that keep running statistics, by name."""
    return {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None
    }


def buffers(batchnorms: Mapping[str, _BatchNorm]) -> Buffers:
    """Running mean, variance and batch count of `batchnorms`, by name."""
    return {f"{name}.{key}": tensor for name, layer in batchnorms.items() for key, tensor in layer.named_buffers()}


@torch.no_grad()
def put_buffers(network: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Copy `values` into the buffers of `network` that they are named after."""
    for name, tensor in values.items():
        network.get_buffer(name).copy_(tensor)


def adapt_batchnorm(
    network: Family,
    loader: Iterable[Any],
    adapt_batches: int | None = ADAPT_BATCHES,
    capacities: Iterable[float] | None = None,
    **options: Any,
) -> None:
    """Give subnetworks the batch-norm statistics of their own activations on `loader`.

    network: a `Subnetwork`, which gets its statistics; or a whole family, which keeps those of each of `capacities`
        (default: 1 and the capacities it was trained at) and hands them to its subnetworks. Only statistics change.
        Adapting 1 once more makes another dense network: the family gets another id and forgets other capacities.
    loader: batches of preprocessed images, alone or first in a tuple. Read once for all capacities.
    adapt_batches: stop after so many batches, a few dozen of which are plenty; None reads all.
    options: `align_batches=200` for a prunable network, `dense=` its dense network for a subnetwork: embeddings are
        then turned to one another by scales and shifts of the norms, which are kept as statistics.
    """
    network.adapt(loader, capacities, adapt_batches=adapt_batches, **options)


@torch.no_grad()
def measured_statistics(
    network: nn.Module, masks: Mapping[float, Masks], loader: Iterable[Any], adapt_batches: int | None
) -> dict[float, Buffers]:
    """Statistics of the activations that `network` (a `backbone`, then a `head`) has with each of `masks`."""
    backbone, head = network.get_submodule("backbone"), network.get_submodule("head")
    statistics = {capacity: _fresh_buffers(network) for capacity in masks}
    if not statistics:
        raise CapacityError("capacities is empty; name the capacities to adapt")
    seen = 0
    with _only_batchnorm_training(network):
        lengths = [n for n in (len(loader) if isinstance(loader, Sized) else None, adapt_batches) if n is not None]
        batches = images_of(islice(loader, adapt_batches), next(network.parameters()))
        for images in track(batches, "Adapting batch norm", min(lengths, default=None)):
            seen += 1
            for capacity, buffers in statistics.items():
                embed_with(backbone, head, images, weights=masked(backbone, masks[capacity]), statistics=buffers)
    if not seen:
        raise ImageError("batch norm cannot be adapted: the loader gave no batch of two or more images")
    for buffers in statistics.values():
        _quieten_constants(network, buffers)
    return statistics


def images_of(loader: Iterable[Any], reference: Tensor) -> Iterator[Tensor]:
    """The images of every batch that has two or more, as a variance needs, where `reference` is."""
    for batch in loader:
        images = (batch[0] if isinstance(batch, tuple | list) else batch).to(reference)
        if len(images) > 1:
            yield images


def _fresh_buffers(network: nn.Module) -> Buffers:
    # with momentum None the first batch replaces these values, the k-th counts 1/k
    return {name: torch.zeros_like(tensor) for name, tensor in buffers(layers(network)).items()}


def _quieten_constants(network: nn.Module, target: Buffers) -> None:
    """Variance 1 for channels that never vary, such as filters that read nothing but dropped ones.

    Their output is their bias whatever the variance; with one near 0 a rounding error would be 1/√ε times larger behind
    the norm, and again behind the next.
    """
    for name, layer in layers(network).items():
        variance = target[f"{name}.running_var"]
        variance[variance < _CONSTANT * layer.eps] = 1.0


@contextmanager
def _only_batchnorm_training(network: nn.Module) -> Iterator[None]:
    """Batch norm averages over all batches alike, everything else is as in evaluation; undone afterwards."""
    batchnorms = layers(network).values()
    momenta = [layer.momentum for layer in batchnorms]
    with evaluating(network):
        try:
            for layer in batchnorms:
                layer.train()
                layer.momentum = None
            yield
        finally:
            for layer, momentum in zip(batchnorms, momenta, strict=True):
                layer.momentum = momentum
