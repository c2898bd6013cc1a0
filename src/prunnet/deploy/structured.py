"""Structured subnetworks: whole filters go, and the network becomes physically smaller.

The paper's appendix: average the scores within each kernel, drop the kernels with the lowest average. Coupled kernels
are scored together and go together. Every group of coupled channels keeps the same share of its units, its *width*, as
every layer keeps the same share of its connections in an unstructured subnetwork; so these are nested as well.
The features keep all their channels, and with them the embedding head stays that of the family.
"""

import copy

import torch
from torch import Tensor, nn

from prunnet.deploy.channels import CoupledChannels, Side, coupled_channels
from prunnet.errors import CapacityError, ModuleError
from prunnet.network import PrunableNetwork, Subnetwork
from prunnet.network.backbones import recipe_of, with_recipe
from prunnet.network.capacity import check_capacity, format_capacity
from prunnet.network.modes import evaluating
from prunnet.network.shapes import ShapeSpec, resize, shape_spec

# Vector units take channels in blocks of 8 or 16; odd counts took some 40 % more time in onnxruntime (docs/speed.md).
CHANNEL_BLOCK = 8

Kept = dict[tuple[str, Side], Tensor]


def structured_subnetwork(net: PrunableNetwork, capacity: float) -> Subnetwork:
    """The widest structured subnetwork with at most the share `capacity` of the backbone's parameters.

    Its kernels keep all their connections. Give it batch-norm statistics of its own with `prunnet.adapt_batchnorm`.
    """
    structure = Structure(net)
    return structure.removed(structure.width_for(capacity))


class Structure:
    """The removable units of a network's backbone, ranked by score."""

    def __init__(self, net: PrunableNetwork) -> None:
        self.net = net
        self.groups = coupled_channels(net)
        self._ranked = [_ranked_units(group, net) for group in self.groups]
        self._dense = shape_spec(net.backbone)
        self._grouped = {n for n, m in net.backbone.named_modules() if isinstance(m, nn.Conv2d) and m.groups > 1}

    def kept(self, width: float) -> Kept:
        """Which outputs and inputs of each layer stay, as masks by (layer, side)."""
        kept: Kept = {}
        for group, ranked in zip(self.groups, self._ranked, strict=True):
            dropped = ranked[_kept_units(group, width) :]
            for part in group.slices:
                channels = self._dense[part.layer][part.side == "in"]
                mask = kept.setdefault((part.layer, part.side), torch.ones(channels, dtype=torch.bool))
                mask[part.positions[dropped].flatten()] = False
        return kept

    def shapes(self, width: float) -> ShapeSpec:
        """The channels each layer is left with."""
        spec = {name: list(channels) for name, channels in self._dense.items()}
        for (layer, side), mask in self.kept(width).items():
            spec[layer][side == "in"] = int(mask.sum())
            if layer in self._grouped:
                spec[layer][1] = spec[layer][0]
        return spec

    def parameters(self, width: float) -> dict[str, int]:
        """How many values each backbone parameter is left with."""
        spec, counts = self.shapes(width), {}
        for name, parameter in self.net.backbone.named_parameters():
            layer = name.rpartition(".")[0]
            count = parameter.numel()
            if layer in spec:
                count = count // self._dense[layer][0] * spec[layer][0]
                if parameter.ndim > 1 and layer not in self._grouped:
                    count = count // self._dense[layer][1] * spec[layer][1]
            counts[name] = count
        return counts

    def capacity(self, width: float) -> float:
        """The share of the backbone's parameters that `width` keeps."""
        return sum(self.parameters(width).values()) / sum(self.parameters(1.0).values())

    def width_for(self, capacity: float) -> float:
        """The largest width that keeps at most `capacity` of the backbone's parameters."""
        wanted = check_capacity(capacity)
        if self.capacity(1.0) <= wanted:
            return 1.0
        if (least := self.capacity(0.0)) > wanted:
            raise CapacityError(
                f"no structured subnetwork of {type(self.net.backbone).__name__} is as small as "
                f"{format_capacity(wanted)}: the narrowest has {format_capacity(least)} of its parameters, "
                "since its features keep their width"
            )
        low, high = 0.0, 1.0
        while high - low > 1e-4 / max(group.units for group in self.groups):
            middle = (low + high) / 2
            low, high = (middle, high) if self.capacity(middle) <= wanted else (low, middle)
        return low

    def removed(self, width: float) -> Subnetwork:
        """Without the dropped units, and checked to be equal to `masked(width)`."""
        kept, subnetwork = self.kept(width), self._copy(width)
        layers = dict(self.net.backbone.named_modules())
        resize(subnetwork.backbone, self.shapes(width))
        with torch.no_grad():
            for name, layer in subnetwork.backbone.named_modules():
                outputs, inputs = kept.get((name, "out")), kept.get((name, "in"))
                if outputs is None and inputs is None:
                    continue
                for key, tensor in layer.state_dict().items():
                    values = layers[name].state_dict()[key]
                    if outputs is not None and values.ndim:
                        values = values[outputs]
                    if inputs is not None and values.ndim > 1 and name not in self._grouped:
                        values = values[:, inputs]
                    tensor.copy_(values)
        _check_equal(subnetwork, self.masked(width))
        return subnetwork

    def masked(self, width: float) -> Subnetwork:
        """With the dropped units zero: filters, biases and the affine part of their norms, so no constant remains."""
        subnetwork = self._copy(width)
        with torch.no_grad():
            for (name, side), mask in self.kept(width).items():
                if side == "out":
                    for parameter in subnetwork.backbone.get_submodule(name).parameters(recurse=False):
                        parameter[~mask] = 0
        return subnetwork

    def _copy(self, width: float) -> Subnetwork:
        return Subnetwork(
            with_recipe(copy.deepcopy(self.net.backbone), recipe_of(self.net.backbone)),
            copy.deepcopy(self.net.head),
            capacity=self.capacity(width),
            family_id=self.net.family_id,
            preprocessing=self.net.preprocessing,
            adapted=width == 1.0,
        ).eval()


def _kept_units(group: CoupledChannels, width: float) -> int:
    """The nearest number of units to `width`; of channels, where there are many, a multiple of `CHANNEL_BLOCK`."""
    channels = group.units >= 4 * CHANNEL_BLOCK and all(part.positions.shape[1] == 1 for part in group.slices)
    block = CHANNEL_BLOCK if channels else 1
    return min(group.units, max(block, block * round(width * group.units / block)))


def _ranked_units(group: CoupledChannels, net: PrunableNetwork) -> Tensor:
    """Units by falling score: the mean over the group's kernels of each kernel's mean |s| (or s)."""
    unit_scores = torch.zeros(group.units, dtype=torch.float64)
    for part in group.slices:
        if part.side == "out" and f"{part.layer}.weight" in net.scores:
            score = net.scores[f"{part.layer}.weight"].detach().double().cpu()
            kernels = (score.abs() if net.ranking == "magnitude" else score).flatten(1).mean(1)
            # scores start, and stay, at a scale set by the kernel's size; relative to it every layer has one vote
            unit_scores += kernels[part.positions].mean(1) / score.abs().mean()
    return unit_scores.argsort(descending=True, stable=True)


@torch.no_grad()
def _check_equal(removed: Subnetwork, masked: Subnetwork) -> None:
    images = torch.randn(2, *removed.preprocessing.input_size, generator=torch.Generator().manual_seed(0))
    images = images.to(next(removed.parameters()))
    name = type(removed.backbone).__name__
    try:
        with evaluating(removed), evaluating(masked):
            found, expected = removed.backbone(images), masked.backbone(images)
    except RuntimeError as error:
        raise ModuleError(f"{name} does not run without its dropped channels: {str(error).splitlines()[0]}") from error
    tolerance = 1e-5 * max(1.0, float(expected.abs().max()))
    if found.shape != expected.shape or not float((found - expected).abs().max()) <= tolerance:
        raise ModuleError(f"{name} without its dropped channels differs from the masked one; prune it unstructured")
