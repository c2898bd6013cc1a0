"""The shape spec of a physically smaller backbone: channels per layer, from which any instance can be resized.

`{"layer1.0.conv1": [40, 32], "layer1.0.bn1": [40], …}`: outputs and inputs of convolutions and linear layers, channels
of batch norms. What else depends on them (conv groups, attention heads) follows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunnet.errors import ModuleError
from prunnet.network.backbones import is_attention

ShapeSpec = dict[str, list[int]]


def shape_spec(backbone: nn.Module) -> ShapeSpec:
    """Channel counts of every layer that structured pruning can shrink."""
    return {name: channels for name, layer in backbone.named_modules() if (channels := _channels(layer))}


def resize(backbone: nn.Module, spec: Mapping[str, Sequence[int]]) -> nn.Module:
    """Give the layers named in `spec` its channel counts, in place; the values of those that change are undefined."""
    layers = dict(backbone.named_modules())
    for name, wanted in spec.items():
        layer = layers.get(name)
        have = None if layer is None else _channels(layer)
        if layer is None or have is None:
            raise ModuleError(f"the shape spec names {name!r}, which {type(backbone).__name__} does not have")
        if len(wanted) != len(have) or any(not 0 < new <= old for new, old in zip(wanted, have, strict=True)):
            raise ModuleError(
                f"the shape spec gives {name} the channels {list(wanted)}; it has {have} and can only shrink"
            )
        if list(wanted) != have:
            _resize_layer(name, layer, wanted)
    for name, layer in layers.items():
        if is_attention(layer):
            _resize_attention(name, layer)
    return backbone


def _channels(layer: nn.Module) -> list[int] | None:
    match layer:
        case nn.Conv2d():
            return [layer.out_channels, layer.in_channels]
        case nn.Linear():
            return [layer.out_features, layer.in_features]
        case _BatchNorm():
            return [layer.num_features]
    return None


def _resize_layer(name: str, layer: nn.Module, wanted: Sequence[int]) -> None:
    if isinstance(layer, nn.Conv2d):
        outputs, inputs = wanted
        if layer.groups > 1:  # whole conv groups go, so that those left are as wide as before
            groups, rest = divmod(layer.groups * outputs, layer.out_channels)
            if rest or inputs * layer.groups != groups * layer.in_channels:
                raise ModuleError(f"the shape spec cuts through the conv groups of {name}: {list(wanted)}")
            layer.groups = groups
        layer.out_channels, layer.in_channels = outputs, inputs
        weight_shape = (outputs, inputs // layer.groups, *layer.kernel_size)
    elif isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = weight_shape = (wanted[0], wanted[1])
    elif isinstance(layer, _BatchNorm):
        layer.num_features = wanted[0]
        weight_shape = (wanted[0],)
    for key, parameter in layer.named_parameters(recurse=False):
        shape = weight_shape if key == "weight" else (wanted[0],)
        setattr(layer, key, nn.Parameter(_empty(parameter, shape), parameter.requires_grad))
    for key, buffer in layer.named_buffers(recurse=False):
        if buffer.ndim:  # a batch count stays
            setattr(layer, key, _empty(buffer, (wanted[0],)))


def _empty(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    return torch.empty(tuple(shape), dtype=tensor.dtype, device=tensor.device)


def _resize_attention(name: str, layer: Any) -> None:
    heads, rest = divmod(layer.proj.in_features, layer.head_dim)
    if rest:
        raise ModuleError(f"the shape spec cuts through the heads of {name}: {layer.proj.in_features} channels")
    layer.num_heads, layer.attn_dim = heads, heads * layer.head_dim
