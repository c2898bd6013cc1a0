"""The subnetwork folder: `model.safetensors` and a `config.json` with its family, capacity and preprocessing."""

import os
from pathlib import Path

from torch import nn

from prunnet.network.backbones import recipe_of
from prunnet.network.subnetwork import EmbeddingHead, Subnetwork
from prunnet.storage.building import check_features_of, described_in, planned, rebuilt
from prunnet.storage.documents import SubnetworkDocument, described
from prunnet.storage.folders import (
    check_fit,
    check_replaceable,
    fill,
    read_config,
    read_folder,
    saved_tensors,
    write_folder,
)
from prunnet.structured.shapes import resize, shape_spec

_LEAST_SHARE = 1 / 128  # of the network that a subnetwork is cut from, for which there is memory until it is cut


def save_subnetwork(subnetwork: Subnetwork, path: str | os.PathLike[str]) -> Path:
    """Write the folder `path`; a subnetwork already there is replaced, or left as it is if anything fails."""
    folder = Path(path)
    check_replaceable(folder, SubnetworkDocument)
    tensors = saved_tensors(subnetwork)
    document = described(
        SubnetworkDocument,
        family_id=subnetwork.family_id,
        capacity=subnetwork.capacity,
        adapted=subnetwork.adapted,
        backbone=recipe_of(subnetwork.backbone),
        backbone_class=type(subnetwork.backbone).__name__,
        shapes=shape_spec(subnetwork.backbone),
        embedding_dim=subnetwork.head.embedding_dim,
        features=tensors["head.linear.weight"].shape[1],
        preprocessing=vars(subnetwork.preprocessing),
    )
    write_folder(folder, document, tensors)
    return folder


def load_subnetwork(path: str | os.PathLike[str], backbone: nn.Module | None = None) -> Subnetwork:
    """Read a subnetwork folder. `backbone` (any instance of the architecture) is for one that timm cannot create."""
    folder = Path(path)
    config = read_config(folder, SubnetworkDocument)
    stored = read_folder(folder, config)
    document, preprocessing = config.document, config.document.preprocessing.preprocessing()

    def build() -> Subnetwork:
        how = f"prunnet.load({str(folder)!r}, backbone=...)"
        module = backbone if backbone is not None else rebuilt(document.backbone, document.backbone_class, how)
        return Subnetwork(
            resize(module, document.shapes),
            EmbeddingHead(document.features, document.embedding_dim),
            capacity=document.capacity,
            family_id=document.family_id,
            preprocessing=preprocessing,
            adapted=document.adapted,
        )

    with described_in(folder):
        share = max(document.capacity, _LEAST_SHARE)
        plan = planned(build, [tensor.shape for tensor in stored.values()], share=share)
    check_fit(saved_tensors(plan), stored, folder)
    with described_in(folder):
        check_features_of(plan.backbone, preprocessing, document.features)
        subnetwork = build()
    fill(saved_tensors(subnetwork), stored, folder)
    return subnetwork.eval()
