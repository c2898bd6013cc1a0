"""Structured subnetworks: whole filters are kept or dropped.

The paper's appendix: average the scores within each kernel, drop the kernels with the lowest average. Coupled kernels
are scored together and go together. Every group of coupled channels keeps the same share of its units, its *width*, as
every layer keeps the same share of its connections in an unstructured subnetwork; so these are nested as well.
The features keep all their channels, and with them the embedding head stays that of the family.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from prunnet.errors import CapacityError, PrunNetError
from prunnet.network.capacity import check_capacity, format_capacity
from prunnet.network.ranking import Masks, Ranking
from prunnet.structured.channels import CoupledChannels, Side, coupled_channels
from prunnet.structured.shapes import ShapeSpec, shape_spec

if TYPE_CHECKING:
    from prunnet.network.prunable import PrunableNetwork

# Vector units take channels in blocks of 8 or 16; odd counts took some 40 % more time in onnxruntime (docs/speed.md).
CHANNEL_BLOCK = 8

Kept = dict[tuple[str, Side], Tensor]


class Structure:
    """The removable units of a backbone, and what a share of them amounts to. Which ones go, scores decide."""

    def __init__(self, net: "PrunableNetwork") -> None:
        self.groups = coupled_channels(net)
        self._name = type(net.backbone).__name__
        self._dense = shape_spec(net.backbone)
        self.grouped = {n for n, m in net.backbone.named_modules() if isinstance(m, nn.Conv2d) and m.groups > 1}
        self._shapes = {name: parameter.shape for name, parameter in net.backbone.named_parameters()}
        self._scored = list(net.scores)

    @torch.no_grad()
    def rank(self, scores: Mapping[str, Tensor], ranking: Ranking) -> list[Tensor]:
        """The units of each group by falling score."""
        return [self._ranked_units(group, scores, ranking) for group in self.groups]

    def _ranked_units(self, group: CoupledChannels, scores: Mapping[str, Tensor], ranking: Ranking) -> Tensor:
        """By the mean over the group's kernels of each kernel's mean |s| (or s)."""
        unit_scores = torch.zeros(group.units, dtype=torch.float64)
        for part in group.slices:
            if part.side == "out" and (name := f"{part.layer}.weight") in scores:
                score = scores[name].detach()
                magnitude = score.abs()
                kernels = (magnitude if ranking == "magnitude" else score).flatten(1).mean(1, dtype=torch.float64)
                # scores start, and stay, at a scale set by the kernel's size; relative to it every layer has one vote
                scale = magnitude.mean(dtype=torch.float64).clamp_min(1e-30)
                unit_scores += (kernels / scale).cpu()[part.positions].mean(1)
                if unit_scores.isnan().any():
                    raise PrunNetError(f"the scores of {name} contain NaN; training has diverged")
        return unit_scores.argsort(descending=True, stable=True)

    def kept(self, width: float, ranked: Sequence[Tensor]) -> Kept:
        """Which outputs and inputs of each layer stay, as masks by (layer, side)."""
        kept: Kept = {}
        for group, units in zip(self.groups, ranked, strict=True):
            dropped = units[_kept_units(group, width) :]
            for part in group.slices:
                channels = self._dense[part.layer][part.side == "in"]
                mask = kept.setdefault((part.layer, part.side), torch.ones(channels, dtype=torch.bool))
                mask[part.positions[dropped].flatten()] = False
        return kept

    def masks(self, width: float, ranked: Sequence[Tensor], device: torch.device | str = "cpu") -> Masks:
        """What stays of every weight, bias and norm that loses anything, and of every scored weight."""
        kept = {key: mask.to(device) for key, mask in self.kept(width, ranked).items()}
        masks: dict[str, tuple[Tensor, ...]] = dict.fromkeys(self._scored, ())
        for name, shape in self._shapes.items():
            layer = name.rpartition(".")[0]
            sides: list[Tensor] = []
            if (outputs := kept.get((layer, "out"))) is not None:
                sides.append(outputs.view(-1, *(1,) * (len(shape) - 1)))
            if len(shape) > 1 and layer not in self.grouped and (inputs := kept.get((layer, "in"))) is not None:
                sides.append(inputs.view(1, -1, *(1,) * (len(shape) - 2)))
            if sides:
                masks[name] = tuple(sides)
        return UnitMasks({name: (self._shapes[name], sides) for name, sides in masks.items()}, device)

    def shapes(self, width: float) -> ShapeSpec:
        """The channels each layer is left with."""
        spec = {name: list(channels) for name, channels in self._dense.items()}
        for group in self.groups:
            dropped = group.units - _kept_units(group, width)
            for part in group.slices:
                spec[part.layer][part.side == "in"] -= dropped * part.positions.shape[1]
        for layer in self.grouped:
            spec[layer][1] = spec[layer][0] * self._dense[layer][1] // self._dense[layer][0]
        return spec

    def parameters(self, width: float) -> dict[str, int]:
        """How many values each backbone parameter is left with."""
        spec, counts = self.shapes(width), {}
        for name, shape in self._shapes.items():
            layer = name.rpartition(".")[0]
            count = shape.numel()
            if layer in spec:
                count = count // self._dense[layer][0] * spec[layer][0]
                if len(shape) > 1 and layer not in self.grouped:
                    count = count // self._dense[layer][1] * spec[layer][1]
            counts[name] = count
        return counts

    def capacity(self, width: float) -> float:
        """The share of the backbone's parameters that `width` keeps."""
        return sum(self.parameters(width).values()) / sum(shape.numel() for shape in self._shapes.values())

    @property
    def least(self) -> float:
        """The smallest capacity there is: the features keep their width."""
        return self.capacity(0.0)

    def width_for(self, capacity: float) -> float:
        """The largest width that keeps at most `capacity` of the backbone's parameters."""
        wanted = check_capacity(capacity)
        if wanted == 1.0:
            return 1.0
        if (least := self.least) > wanted:
            raise CapacityError(
                f"no structured subnetwork of {self._name} is as small as {format_capacity(wanted)}: the narrowest has "
                f"{format_capacity(least)} of its parameters, since its features keep their width"
            )
        return widest(lambda width: self.capacity(width) <= wanted)


def widest(fits: Callable[[float], bool]) -> float:
    """The largest width that `fits`, given that 0 does and that a wider one never fits where a narrower does not."""
    if fits(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


class UnitMasks(Mapping[str, Tensor]):
    """Masks by parameter name, made when asked for from those of each layer's outputs and inputs."""

    def __init__(self, sides: Mapping[str, tuple[torch.Size, tuple[Tensor, ...]]], device: torch.device | str) -> None:
        self._sides = sides
        self._all = torch.ones((), dtype=torch.bool, device=device)

    def __getitem__(self, name: str) -> Tensor:
        shape, sides = self._sides[name]
        mask = self._all
        for side in sides:
            mask = mask & side
        return mask.expand(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._sides)

    def __len__(self) -> int:
        return len(self._sides)


def _kept_units(group: CoupledChannels, width: float) -> int:
    """The nearest number of units to `width`; of channels, where there are many, a multiple of `CHANNEL_BLOCK`."""
    channels = group.units >= 4 * CHANNEL_BLOCK and all(part.positions.shape[1] == 1 for part in group.slices)
    block = CHANNEL_BLOCK if channels else 1
    return min(group.units, max(block, block * round(width * group.units / block)))
