"""Structured subnetworks made physically smaller: the dropped filters are gone, not zero."""

import copy

import torch

from prunnet.errors import ModuleError, first_line
from prunnet.network import PrunableNetwork, Subnetwork
from prunnet.network.backbones import recipe_of, with_recipe
from prunnet.network.functional import evaluating
from prunnet.structured.filters import Filters, structure_of
from prunnet.structured.shapes import resize
from prunnet.structured.structure import Structure


def structured_subnetwork(net: PrunableNetwork, capacity: float) -> Subnetwork:
    """The widest structured subnetwork with at most the share `capacity` of the backbone's parameters.

    Of a family that selects filters it is the member at `capacity`, with the statistics the family has of it. Of any
    other, whose kernels were never dropped whole, it is a view: kernels keep all their connections, and batch norm has
    to be adapted (`prunnet.adapt_batchnorm`).
    """
    structure = structure_of(net)
    width = structure.width_for(capacity)
    if isinstance(net.selection, Filters):
        return _without_dropped_units(net, structure, width, net.subnetwork(capacity))
    return removed(net, structure, width)


def removed(net: PrunableNetwork, structure: Structure, width: float) -> Subnetwork:
    """Without the dropped units, and checked to be equal to `masked(net, structure, width)`."""
    return _without_dropped_units(net, structure, width, masked(net, structure, width))


@torch.no_grad()
def masked(net: PrunableNetwork, structure: Structure, width: float) -> Subnetwork:
    """With the dropped units zero: filters, biases and the affine part of their norms, so no constant remains."""
    subnetwork = Subnetwork(
        copy.deepcopy(net.backbone),
        copy.deepcopy(net.head),
        capacity=structure.capacity(width),
        family_id=net.family_id,
        preprocessing=net.preprocessing,
        adapted=width == 1.0,
    )
    device = next(net.parameters()).device
    for name, mask in structure.masks(width, _ranked(net, structure), device).items():
        subnetwork.backbone.get_parameter(name).mul_(mask)
    return subnetwork.eval()


def _ranked(net: PrunableNetwork, structure: Structure) -> list[torch.Tensor]:
    return structure.rank(dict(net.scores.items()), net.ranking)


@torch.no_grad()
def _without_dropped_units(net: PrunableNetwork, structure: Structure, width: float, masked: Subnetwork) -> Subnetwork:
    kept, grouped = structure.kept(width, _ranked(net, structure)), structure.grouped
    subnetwork = copy.deepcopy(masked)
    with_recipe(subnetwork.backbone, recipe_of(net.backbone))
    layers = dict(masked.backbone.named_modules())
    resize(subnetwork.backbone, structure.shapes(width))
    for name, layer in subnetwork.backbone.named_modules():
        outputs, inputs = kept.get((name, "out")), kept.get((name, "in"))
        if outputs is None and inputs is None:
            continue
        for key, tensor in layer.state_dict().items():
            values = layers[name].state_dict()[key]
            if outputs is not None and values.ndim:
                values = values[outputs.to(values.device)]
            if inputs is not None and values.ndim > 1 and name not in grouped:
                values = values[:, inputs.to(values.device)]
            tensor.copy_(values)
    _check_equal(subnetwork, masked)
    return subnetwork


def _check_equal(removed: Subnetwork, masked: Subnetwork) -> None:
    images = torch.randn(2, *removed.preprocessing.input_size, generator=torch.Generator().manual_seed(0))
    images = images.to(next(removed.parameters()))
    name = type(removed.backbone).__name__
    try:
        with evaluating(removed), evaluating(masked):
            features, expected = removed.backbone(images), masked.backbone(images)
    except RuntimeError as error:
        raise ModuleError(f"{name} does not run without its dropped channels: {first_line(error)}") from error
    tolerance = 1e-5 * max(1.0, float(expected.abs().max()))
    if features.shape != expected.shape or not float((features - expected).abs().max()) <= tolerance:
        raise ModuleError(f"{name} without its dropped channels differs from the masked one; prune it unstructured")
