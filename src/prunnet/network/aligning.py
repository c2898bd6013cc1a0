"""Aligned batch norm: every norm of a member gets a scale and a shift of its own, which turn the member's embeddings to
those of a teacher. Weights and scores stay as they are.

γ(eᵃ·x̂ + d) + β, a norm with another scale and shift, is the same norm with the standard deviation σ·e⁻ᵃ and the mean
μ − d·σ·e⁻ᵃ. So what is learnt is kept as the member's statistics, and every file, export and runtime has it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR

from prunnet._progress import track
from prunnet.errors import ImageError
from prunnet.network.batchnorm import Buffers, images_of, layers
from prunnet.network.functional import embed_with, evaluating, masked
from prunnet.network.ranking import Masks

RATE = 0.02
"""Of Adam at the first batch; it falls to 0 as a cosine does."""
STEP_IMAGES = 16
"""Images of a step at most: many steps of few images find more than few steps of many."""
READINGS = 10
"""How often an image is seen at most: few images say little about others."""

Teacher = Callable[[Tensor], Tensor]
"""Images to the embeddings that members are turned to."""


class NormShift(nn.Module):
    """a and d of every norm that has a scale, for the member whose statistics are `buffers`."""

    def __init__(self, network: nn.Module, buffers: Buffers) -> None:
        super().__init__()
        self.norms = {name: layer for name, layer in layers(network).items() if layer.affine}
        self.measured = buffers
        self.scales = nn.ParameterList(torch.zeros_like(layer.weight) for layer in self.norms.values())
        self.shifts = nn.ParameterList(torch.zeros_like(layer.weight) for layer in self.norms.values())

    def replaced(self) -> Buffers:
        """Statistics, and scales and shifts in place of the network's, by name."""
        replaced = dict(self.measured)
        for (name, layer), (factor, shift) in zip(self.norms.items(), self._values(), strict=True):
            weight, bias = layer.weight.detach(), layer.bias.detach()
            replaced[f"{name}.weight"], replaced[f"{name}.bias"] = weight * factor, bias + weight * shift
        return replaced

    @torch.no_grad()
    def folded(self) -> Buffers:
        """The same as statistics alone."""
        folded = dict(self.measured)
        for (name, layer), (factor, shift) in zip(self.norms.items(), self._values(), strict=True):
            mean, variance = f"{name}.running_mean", f"{name}.running_var"
            deviation = (folded[variance] + layer.eps).sqrt() / factor
            folded[mean] = folded[mean] - shift * deviation
            folded[variance] = (deviation.square() - layer.eps).clamp_min(0)
        return folded

    def _values(self) -> Iterator[tuple[Tensor, Tensor]]:
        """eᵃ and d of each norm; eᵃ no larger than a variance of 0 allows."""
        for (name, layer), a, d in zip(self.norms.items(), self.scales, self.shifts, strict=True):
            largest = (self.measured[f"{name}.running_var"] / layer.eps + 1).sqrt()
            yield torch.minimum(a.exp(), largest), d


def consensus(network: nn.Module, masks: Mapping[float, Masks], statistics: Mapping[float, Buffers]) -> Teacher:
    """What the members of a family that have `statistics` say together: the mean of their embeddings.

    They err on images of other classes in ways of their own, so that their mean finds more than any of them.
    """
    backbone, head = network.get_submodule("backbone"), network.get_submodule("head")

    def mean_embedding(images: Tensor) -> Tensor:
        embeddings = (
            embed_with(backbone, head, images, weights=masked(backbone, masks[capacity]), statistics=buffers)
            for capacity, buffers in statistics.items()
        )
        return torch.stack([F.normalize(embedding, dim=1) for embedding in embeddings]).mean(dim=0)

    return mean_embedding


@torch.enable_grad()
def aligned_statistics(
    network: nn.Module,
    masks: Mapping[float, Masks],
    measured: Mapping[float, Buffers],
    teacher: Teacher,
    loader: Iterable[Any],
    align_batches: int,
) -> dict[float, Buffers]:
    """Statistics with which the embeddings of `network` (a `backbone`, then a `head`) under each of `masks` lie nearer
    to those of `teacher`, by their cosine, starting from `measured` ones. The loader is read as often as it takes, up
    to `READINGS` times.
    """
    if isinstance(loader, Sized):
        align_batches = min(align_batches, READINGS * len(loader))
    backbone, head = network.get_submodule("backbone"), network.get_submodule("head")
    norms = {capacity: NormShift(network, buffers) for capacity, buffers in measured.items()}
    optimisers = {capacity: Adam(shift.parameters(), lr=RATE) for capacity, shift in norms.items()}
    schedules = [CosineAnnealingLR(optimiser, align_batches) for optimiser in optimisers.values()]
    with evaluating(network):
        for images in track(_repeated(loader, align_batches, next(network.parameters())), "Aligning", align_batches):
            with torch.no_grad():
                target = teacher(images)
            for capacity, shift in norms.items():
                with torch.no_grad():
                    weights = masked(backbone, masks[capacity])
                for few, wanted in zip(torch.split(images, STEP_IMAGES), torch.split(target, STEP_IMAGES), strict=True):
                    embedding = embed_with(backbone, head, few, weights=weights, statistics=shift.replaced())
                    loss = 1 - F.cosine_similarity(embedding, wanted, dim=1).mean()
                    learnt = list(shift.parameters())
                    for parameter, gradient in zip(learnt, torch.autograd.grad(loss, learnt), strict=True):
                        parameter.grad = gradient
                    optimisers[capacity].step()
            for schedule in schedules:
                schedule.step()
    return {capacity: shift.folded() for capacity, shift in norms.items()}


def _repeated(loader: Iterable[Any], count: int, reference: Tensor) -> Iterator[Tensor]:
    """`count` batches, from as many readings of `loader` as that takes."""
    empty = 0
    while empty < 2:  # one that was left just before its end gives nothing when it is read for the first time
        empty += 1
        for images in images_of(loader, reference):
            yield images
            empty, count = 0, count - 1
            if not count:
                return
    raise ImageError("norms cannot be aligned: the loader gave no batch of two or more images when read again")
