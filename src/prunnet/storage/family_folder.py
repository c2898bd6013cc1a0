"""The family folder: `model.safetensors`, `config.json` and a model card. No pickle, written whole or not at all."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from prunnet.errors import FamilyError
from prunnet.network import Connections, PrunableNetwork, Selection
from prunnet.network.allocation import Allocation, Sensitive, Uniform
from prunnet.network.backbones import prunable_parameters, recipe_of
from prunnet.network.subnetwork import EmbeddingHead
from prunnet.storage.building import check_features_of, described_in, planned, rebuilt
from prunnet.storage.documents import FamilyDocument, described
from prunnet.storage.folders import (
    check_fit,
    check_replaceable,
    fill,
    read_config,
    read_folder,
    saved_tensors,
    write_folder,
)
from prunnet.structured import Filters


def save_family(net: PrunableNetwork, path: str | os.PathLike[str]) -> Path:
    """Write the family folder `path`; an existing family there is replaced, or left as it is if anything fails."""
    folder = Path(path)
    check_replaceable(folder, FamilyDocument)
    document = described(
        FamilyDocument,
        family_id=net.family_id,
        backbone=recipe_of(net.backbone),
        backbone_class=type(net.backbone).__name__,
        embedding_dim=net.head.embedding_dim,
        prunable=list(net.scores),
        ranking=net.ranking,
        selection=net.selection.name,
        sensitivities=_sensitivities(net),
        preprocessing=vars(net.preprocessing),
        capacities=list(net.capacities),
        adapted=list(net.statistics),
    )
    write_folder(folder, document, _tensors(net))
    return folder


def load_family(path: str | os.PathLike[str], backbone: nn.Module | None = None) -> PrunableNetwork:
    """Read a family folder. `backbone` (any instance of the architecture) is needed only for one timm cannot create."""
    folder = Path(path)
    config = read_config(folder, FamilyDocument)
    tensors = read_folder(folder, config)
    document = config.document
    preprocessing, features = document.preprocessing.preprocessing(), _features(tensors, document, folder)

    def build(selection: Selection) -> PrunableNetwork:
        how = f"prunnet.load({str(folder)!r}, backbone=...)"
        module = backbone if backbone is not None else rebuilt(document.backbone, document.backbone_class, how)
        weights = prunable_parameters(module, document.prunable)
        head = EmbeddingHead(features, document.embedding_dim).to(next(iter(weights.values())))
        net = PrunableNetwork(module, head, weights, preprocessing, document.ranking, selection)
        _make_room(net, document.adapted)
        return net

    selection = Filters() if document.selection == "filters" else Connections(_allocation(document))
    if backbone is not None:
        with described_in(folder):
            check_features_of(backbone, preprocessing, features)
            net = build(selection)
    else:
        with described_in(folder):
            plan = planned(lambda: build(Connections()), [tensor.shape for tensor in tensors.values()])
        check_fit(_tensors(plan), tensors, folder)
        with described_in(folder):
            check_features_of(plan.backbone, preprocessing, features)
            selection.attach(plan)  # it follows an image of the size that the document says, here without memory
            net = build(Connections())
        net.selection = selection
    net.family_id, net.capacities = document.family_id, document.capacities
    fill(_tensors(net), tensors, folder)
    return net.eval()


def _sensitivities(net: PrunableNetwork) -> list[float] | None:
    allocation = net.selection.allocation
    return [allocation.sensitivities[name] for name in net.scores] if isinstance(allocation, Sensitive) else None


def _allocation(document: FamilyDocument) -> Allocation:
    if document.sensitivities is None:
        return Uniform()
    return Sensitive(dict(zip(document.prunable, document.sensitivities, strict=True)))


def _features(tensors: Mapping[str, Tensor], document: FamilyDocument, folder: Path) -> int:
    """How many features the stored head takes, if it gives as many dimensions as the document says."""
    weight = tensors.get("head.linear.weight")
    if weight is None or weight.ndim != 2 or weight.shape[0] != document.embedding_dim:
        shape = None if weight is None else tuple(weight.shape)
        raise FamilyError(
            f"{folder}: head.linear.weight has shape {shape}, which does not give {document.embedding_dim} dimensions"
        )
    return weight.shape[1]


def _tensors(net: PrunableNetwork) -> dict[str, Tensor]:
    """Every tensor of the file by name, as the network's own."""
    statistics = {f"batchnorm.{name}": tensor for name, tensor in net.statistics.tensors().items()}
    return {**saved_tensors(net), **statistics}


def _make_room(net: PrunableNetwork, capacities: Iterable[float]) -> None:
    """Statistics of `capacities`, to be filled."""
    for capacity in capacities:
        running = {n: t for n, t in saved_tensors(net).items() if n.endswith(("running_mean", "running_var"))}
        net.statistics.put(capacity, {name: torch.empty_like(tensor) for name, tensor in running.items()})
