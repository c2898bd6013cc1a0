"""Passes that borrow a network: with other tensors in place of its own, or other training flags, undone afterwards.

This is what makes a subnetwork the same module called differently.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from prunnet.network.backbones import check_features


def masked(backbone: nn.Module, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """w·r(s), Eq. 1, by parameter name."""
    return {name: backbone.get_parameter(name) * mask for name, mask in masks.items()}


def embed_with(
    backbone: nn.Module,
    head: nn.Module,
    images: Tensor,
    *,
    weights: Mapping[str, Tensor],
    statistics: Mapping[str, Tensor],
) -> Tensor:
    """Raw embeddings with other `weights` (named as in the backbone) and `statistics` (`backbone.*`, `head.*`)."""
    replaced: dict[str, dict[str, Tensor]] = {"backbone": dict(weights), "head": {}}
    for name, tensor in statistics.items():
        part, _, rest = name.partition(".")
        replaced[part][rest] = tensor
    features = check_features(functional_call(backbone, replaced["backbone"], (images,)), backbone)
    embedding: Tensor = functional_call(head, replaced["head"], (features,))
    return embedding


@torch.no_grad()
def embed_batches(network: nn.Module, batches: Iterable[Tensor], **options: Any) -> Tensor:
    """Embeddings of preprocessed images by `network` in evaluation mode, called with `options`."""
    reference = next(network.parameters())
    with evaluating(network):
        return torch.cat([network(images.to(reference), **options).float() for images in batches])


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put `module` into evaluation mode; afterwards every submodule has the mode it had."""
    modes = {submodule: submodule.training for submodule in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for submodule, training in modes.items():
            submodule.training = training
