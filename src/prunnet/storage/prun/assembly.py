"""From decoded tensors to a module, without memory for a network that the file does not describe."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from prunnet.errors import FamilyError
from prunnet.network.subnetwork import EmbeddingHead, Subnetwork
from prunnet.storage import building
from prunnet.storage.folders import saved_tensors
from prunnet.storage.prun.header import Header
from prunnet.storage.prun.numbers import Floats
from prunnet.storage.prun.tensors import shapes_of, tensors_of


def planned(header: Header, capacity: float, backbone: nn.Module | None) -> Subnetwork:
    """The subnetwork without memory behind its tensors, if the header describes one; `backbone` is taken as it is."""
    claimed = (header.layers, header.statistics, header.rest)
    stored = [shape for shapes in claimed for shape in shapes.values()]
    subnetwork = building.planned(lambda: _build(header, capacity, backbone), stored)
    for shapes, expected in zip(claimed, map(shapes_of, tensors_of(subnetwork, header.layers)), strict=True):
        for name in {**shapes, **expected}:
            if shapes.get(name) != expected.get(name):
                raise FamilyError(
                    f"{name} has shape {shapes.get(name)} in the file and {expected.get(name)} in the backbone"
                )
    features = subnetwork.head.linear.in_features
    building.check_features_of(subnetwork.backbone, subnetwork.preprocessing, features)
    return subnetwork


def assembled(
    plan: Subnetwork, header: Header, tensors: Mapping[str, Floats], backbone: nn.Module | None
) -> Subnetwork:
    """The subnetwork with its tensors. Those of the plan are replaced where nothing else in it needs memory."""
    values = {name: torch.from_numpy(array) for name, array in tensors.items()}
    if backbone is None and _holds_only_saved_tensors(plan):
        counts = {
            name: torch.zeros(t.shape, dtype=t.dtype) for name, t in plan.state_dict().items() if name not in values
        }
        plan.load_state_dict({**values, **counts}, assign=True)
        return plan.eval()
    subnetwork = _build(header, plan.capacity, backbone)
    with torch.no_grad():
        for name, tensor in saved_tensors(subnetwork).items():
            if name in values:
                tensor.copy_(values[name])
    return subnetwork.eval()


def _build(header: Header, capacity: float, backbone: nn.Module | None) -> Subnetwork:
    how = "prunnet.unpack(..., backbone=...)"
    return Subnetwork(
        backbone if backbone is not None else building.rebuilt(header.backbone, header.backbone_class, how),
        EmbeddingHead(header.rest["head.linear.weight"][1], header.embedding_dim),
        capacity=capacity,
        family_id=header.family_id,
        preprocessing=header.preprocessing.preprocessing(),
        adapted=True,
    )


def _holds_only_saved_tensors(module: nn.Module) -> bool:
    """Whether the state dict is all there is: no shared tensors, unsaved buffers or tensors in plain attributes."""
    saved, own = module.state_dict(), saved_tensors(module)
    buffers = dict(module.named_buffers())
    attributes = (value for submodule in module.modules() for value in vars(submodule).values())
    return saved.keys() == own.keys() and buffers.keys() <= own.keys() and not any(map(_has_tensor, attributes))


def _has_tensor(attribute: object) -> bool:
    if isinstance(attribute, Tensor):
        return True
    # `_parameters`, `_buffers` and `_modules` are dictionaries, and judged by the state dict
    return isinstance(attribute, list | tuple) and any(map(_has_tensor, attribute))
