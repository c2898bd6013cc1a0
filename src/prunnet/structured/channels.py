"""Coupled channels: which filters, norms and inputs must go together when one channel goes.

Residual additions and depthwise convolutions tie channels of several layers. torch-pruning's dependency graph finds
the ties; attention heads are tied by construction. A unit is the smallest thing that can be removed: a channel, a
conv group, or a head.
"""

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunnet.errors import MissingExtraError, ModuleError
from prunnet.network.backbones import is_attention
from prunnet.network.functional import evaluating

if TYPE_CHECKING:
    from prunnet.network.prunable import PrunableNetwork

Side = Literal["out", "in"]


@dataclass(frozen=True, eq=False)
class Slice:
    """What each unit takes up in one layer: `positions[unit]` along the layer's outputs or inputs."""

    layer: str
    side: Side
    positions: Tensor


@dataclass(frozen=True, eq=False)
class CoupledChannels:
    """Units of which each can be removed, from all `slices` at once."""

    units: int
    slices: tuple[Slice, ...]


def coupled_channels(net: "PrunableNetwork") -> list[CoupledChannels]:
    """Everything that can be removed from the backbone without changing the width of its features."""
    finder = _Finder(net)
    groups = [group for members in _dependency_groups(net) if (group := finder.channels(members)) is not None]
    groups = [*_joined_by_conv_groups(groups, net.backbone), *finder.heads]
    if not groups:
        raise ModuleError(f"{type(net.backbone).__name__} has no channels that could be removed; prune it unstructured")
    return groups


def _dependency_groups(net: "PrunableNetwork") -> Iterator[Iterable[Any]]:
    try:
        from torch_pruning import DependencyGraph  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("torch-pruning", "structured", "a structured subnetwork") from None
    images = torch.zeros(1, *net.preprocessing.input_size).to(next(net.parameters()))
    with warnings.catch_warnings(), evaluating(net), torch.enable_grad():
        warnings.filterwarnings("ignore", "Unwrapped parameters detected")  # their groups are left whole
        graph = DependencyGraph().build_dependency(net, example_inputs=images)
        yield from graph.get_all_groups()


class _Finder:
    """Turns groups of the dependency graph into slices of backbone layers, or leaves them whole."""

    def __init__(self, net: "PrunableNetwork") -> None:
        self.names = {layer: name for name, layer in net.backbone.named_modules()}
        self.scores = net.scores
        owners = Counter(p for layer in self.names for p in layer.parameters(recurse=False))
        self.shared = {parameter for parameter, count in owners.items() if count > 1}
        self.heads: list[CoupledChannels] = []
        self.whole: set[tuple[str, Side]] = set()  # attention's channels go by heads or not at all
        for layer, name in self.names.items():
            if hasattr(layer, "qkv"):
                self.whole |= {(f"{name}.qkv", "out"), (f"{name}.proj", "in")}
                if is_attention(layer) and f"{name}.qkv.weight" in self.scores:
                    self.heads.append(_heads(name, layer))

    def channels(self, members: Iterable[Any]) -> CoupledChannels | None:
        parts: list[tuple[str, Side, list[int], list[int]]] = []
        width = 1
        for member in members:
            layer = member.dep.target.module
            if type(layer).__module__.startswith("torch_pruning"):  # additions, activations, reshapes
                continue
            side: Side = "in" if member.dep.handler.__name__ == "prune_in_channels" else "out"
            if layer not in self.names or not self.removable(layer, side):
                return None
            if isinstance(layer, nn.Conv2d) and layer.groups > 1:
                width = max(width, layer.out_channels // layer.groups)
            parts.append((self.names[layer], side, member.idxs, member.root_idxs))
        units = (1 + max(max(root) for _, _, _, root in parts)) // width
        return CoupledChannels(
            units, tuple(Slice(name, side, _by_unit(at, root, units, width)) for name, side, at, root in parts)
        )

    def removable(self, layer: Any, side: Side) -> bool:
        """Only where a removed channel equals a zero one: not across layer norms; and only filters that have scores."""
        name = self.names[layer]
        if (name, side) in self.whole or not self.shared.isdisjoint(layer.parameters(recurse=False)):
            return False
        match layer:
            case _BatchNorm():
                return bool(layer.affine)  # otherwise it makes a constant of a zero
            case nn.Conv2d():
                whole_groups = layer.groups == 1 or layer.in_channels == layer.out_channels
                return whole_groups and (side == "in" or f"{name}.weight" in self.scores)
            case nn.Linear():
                return side == "in" or f"{name}.weight" in self.scores
        return False


def _by_unit(positions: list[int], root: list[int], units: int, width: int) -> Tensor:
    order = (torch.tensor(root) // width).argsort(stable=True)
    return torch.tensor(positions)[order].view(units, -1)


def _joined_by_conv_groups(groups: list[CoupledChannels], backbone: nn.Module) -> list[CoupledChannels]:
    """Conv groups have inputs and outputs: the graph lists them apart, but they go together or not at all."""
    for name, layer in backbone.named_modules():
        if not isinstance(layer, nn.Conv2d) or layer.groups in (1, layer.out_channels):
            continue
        touching = [group for group in groups if any(part.layer == name for part in group.slices)]
        groups = [group for group in groups if group not in touching]
        slices = [part for group in touching for part in group.slices]
        sides = {part.side for part in slices if part.layer == name}
        if sides == {"in", "out"} and len({group.units for group in touching}) == 1:
            kept = tuple(part for part in slices if (part.layer, part.side) != (name, "in"))
            groups.append(CoupledChannels(touching[0].units, kept))
    return groups


def _heads(name: str, attention: Any) -> CoupledChannels:
    heads, size = attention.num_heads, attention.head_dim
    channels = torch.arange(heads * size).view(heads, size)
    query_key_value = torch.cat([channels + part * heads * size for part in range(3)], dim=1)
    return CoupledChannels(heads, (Slice(f"{name}.qkv", "out", query_key_value), Slice(f"{name}.proj", "in", channels)))
