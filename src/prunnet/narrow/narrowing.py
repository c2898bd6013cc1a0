"""Networks of fewer channels: width √c, where a subnetwork of PrunNet keeps a share c of the connections.

A narrower network has the leading channels of every layer. Sizes that are equal in the wide network stay equal, so that
sums still fit; conv groups and attention heads stay whole.
"""

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunnet.errors import ModuleError, first_line
from prunnet.network.backbones import check_features, is_attention, recipe_of, with_recipe
from prunnet.network.capacity import check_capacity
from prunnet.network.functional import evaluating
from prunnet.network.subnetwork import EmbeddingHead, Subnetwork

Index = slice | Tensor
Slices = dict[str, tuple[Index, ...]]
"""By parameter name, what a narrower network takes of each dimension of the wide network's parameter."""

NORMS = (_BatchNorm, nn.LayerNorm, nn.GroupNorm)
_ALL = slice(None)


def narrow(network: Subnetwork, capacity: float) -> tuple[Subnetwork, Slices]:
    """The network of width √`capacity`, with copies of the leading channels of `network`, and where they come from."""
    width = math.sqrt(check_capacity(capacity))
    backbone, slices = narrow_backbone(network.backbone, width)
    taken = {f"backbone.{name}": index for name, index in slices.items()}
    head = EmbeddingHead(_feature_count(backbone, network), network.head.embedding_dim)
    taken["head.linear.weight"] = (_ALL, slice(head.linear.in_features))
    member = Subnetwork(
        backbone,
        head.to(next(backbone.parameters())),
        capacity=capacity,
        family_id=network.family_id,
        preprocessing=network.preprocessing,
        adapted=True,  # it is trained with statistics of its own
    )
    wide = network.state_dict()
    slices = {name: taken.get(name, (_ALL,)) for name in member.state_dict()}
    member.load_state_dict(
        {name: wide[name][index] if wide[name].ndim else wide[name] for name, index in slices.items()}
    )
    return member, slices


def narrow_backbone(backbone: nn.Module, width: float) -> tuple[nn.Module, Slices]:
    """A copy of `backbone` with `width` of its channels, whose values are undefined, and the slices to fill it from."""
    if len(list(backbone.parameters())) < len(list(backbone.named_parameters(remove_duplicate=False))):
        raise ModuleError(f"{type(backbone).__name__} uses a weight in two layers; it cannot be made narrower")
    sizes = _Sizes(backbone, width)
    recipe = recipe_of(backbone)
    narrower = with_recipe(copy.deepcopy(backbone), recipe and {**recipe, "width": width})
    convolutions = (layer for layer in narrower.modules() if isinstance(layer, nn.Conv2d))
    image_layer = next(convolutions, None)
    inside_attention = _attention_slices(narrower, sizes)
    slices: Slices = {}
    for name, layer in narrower.named_modules():
        outputs, inputs = inside_attention.get(name, (None, None))
        for key, tensor in [*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False)]:
            if not tensor.ndim:  # a batch count
                continue
            index: tuple[Index, ...]
            if isinstance(layer, nn.Conv2d | nn.Linear):
                index = (outputs if outputs is not None else slice(sizes(tensor.shape[0])),)
                whole = layer is image_layer or (isinstance(layer, nn.Conv2d) and layer.groups > 1)
                if tensor.ndim > 1:
                    narrowed = inputs if inputs is not None else slice(sizes(tensor.shape[1]))
                    index = (*index, _ALL if whole else narrowed)
            else:  # norms, tokens, position embeddings: channels come last
                index = (*[_ALL] * (tensor.ndim - 1), slice(sizes(tensor.shape[-1])))
            slices[f"{name}.{key}" if name else key] = index
            kept = torch.empty_like(tensor[index])
            setattr(layer, key, nn.Parameter(kept, tensor.requires_grad) if key in layer._parameters else kept)
        _tell(layer)
    for attention in filter(is_attention, narrower.modules()):
        _tell_attention(attention)
    return narrower, slices


def initialise(backbone: nn.Module) -> None:
    """Values as timm starts them, where timm knows how: the scale of a weight depends on its layer's width."""
    from timm.models._efficientnet_builder import efficientnet_init_weights
    from timm.models.efficientnet import EfficientNet

    if isinstance(backbone, EfficientNet):
        efficientnet_init_weights(backbone)
    elif callable(start := getattr(backbone, "init_weights", None)):
        options = (recipe_of(backbone) or {}).get("options", {})
        start(**{name: options[name] for name in ("zero_init_last",) if name in options})


class _Sizes:
    """How many channels are left of so many: the nearest to `width` of them that whole groups and heads allow."""

    def __init__(self, backbone: nn.Module, width: float) -> None:
        self.width = width
        self.blocks: dict[int, int] = {}
        for layer in backbone.modules():
            if isinstance(layer, nn.Conv2d) and layer.groups > 1:
                for channels in (layer.out_channels, layer.in_channels):
                    self._keep_whole(channels, channels // layer.groups)
            elif is_attention(layer):
                attention: Any = layer
                self._keep_whole(attention.attn_dim, attention.num_heads)

    def _keep_whole(self, channels: int, block: int) -> None:
        self.blocks[channels] = math.lcm(self.blocks.get(channels, 1), block)

    def __call__(self, channels: int) -> int:
        block = self.blocks.get(channels, 1)
        return block * max(1, round(self.width * channels / block))


def _attention_slices(backbone: nn.Module, sizes: _Sizes) -> dict[str, tuple[Index | None, Index | None]]:
    """Outputs of `qkv` and inputs of `proj`: every head keeps its leading channels."""
    slices: dict[str, tuple[Index | None, Index | None]] = {}
    for name, layer in backbone.named_modules():
        if is_attention(layer):
            attention: Any = layer
            kept = sizes(attention.attn_dim) // attention.num_heads
            channels = torch.arange(3 * attention.attn_dim).view(3, attention.num_heads, attention.head_dim)
            slices[f"{name}.qkv"] = (channels[..., :kept].flatten(), None)
            slices[f"{name}.proj"] = (None, channels[0, :, :kept].flatten())
    return slices


def _tell(layer: nn.Module) -> None:
    """Bring the attributes of `layer` in line with its parameters."""
    if isinstance(layer, nn.Conv2d):
        per_group = layer.out_channels // layer.groups
        outputs, inputs_per_group = layer.weight.shape[:2]
        layer.groups = outputs // per_group if layer.groups > 1 else 1
        layer.out_channels, layer.in_channels = outputs, inputs_per_group * layer.groups
    elif isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, _BatchNorm):
        layer.num_features = len(layer.weight if layer.running_mean is None else layer.running_mean)
    elif isinstance(layer, nn.LayerNorm):
        layer.normalized_shape = tuple(layer.weight.shape)


def _tell_attention(attention: Any) -> None:
    attention.attn_dim = attention.proj.in_features
    attention.head_dim = attention.attn_dim // attention.num_heads
    attention.scale = attention.head_dim**-0.5


@torch.no_grad()
def _feature_count(backbone: nn.Module, network: Subnetwork) -> int:
    images = torch.zeros(1, *network.preprocessing.input_size).to(next(backbone.parameters()))
    with evaluating(backbone):
        try:
            return check_features(backbone(images), backbone).shape[1]
        except (RuntimeError, AssertionError) as error:
            raise ModuleError(f"{type(backbone).__name__} cannot be made narrower: {first_line(error)}") from error
