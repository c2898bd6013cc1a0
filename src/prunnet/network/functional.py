"""A pass with other tensors in place of a network's own: what makes a subnetwork the same module called differently."""

from collections.abc import Mapping

from torch import Tensor, nn
from torch.func import functional_call

from prunnet.network.backbones import check_features


def embed(
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
