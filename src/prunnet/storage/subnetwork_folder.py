"""The subnetwork folder: `model.safetensors` and a `config.json` with its family, capacity and preprocessing."""

import os
from pathlib import Path

from torch import nn

from prunnet._files import replace_folder
from prunnet.errors import FamilyError
from prunnet.narrow.narrowing import narrow_backbone
from prunnet.network.backbones import rebuild_backbone, recipe_of
from prunnet.network.capacity import check_capacity
from prunnet.network.head import EmbeddingHead
from prunnet.network.preprocessing import Preprocessing
from prunnet.network.subnetwork import Subnetwork
from prunnet.storage.folders import check_replaceable, read_config, read_folder, write_folder
from prunnet.storage.tensors import fill, saved_tensors
from prunnet.structured.shapes import resize, shape_spec

FORMAT = "prunnet-subnetwork"
VERSION = 2  # 1 had no checksums


def save_subnetwork(subnetwork: Subnetwork, path: str | os.PathLike[str]) -> Path:
    """Write the folder `path`; a subnetwork already there is replaced, or left as it is if anything fails."""
    folder = Path(path)
    check_replaceable(folder, FORMAT, VERSION)
    tensors = saved_tensors(subnetwork)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "family_id": subnetwork.family_id,
        "capacity": subnetwork.capacity,
        "adapted": subnetwork.adapted,
        "backbone": recipe_of(subnetwork.backbone),
        "backbone_class": type(subnetwork.backbone).__name__,
        "shapes": shape_spec(subnetwork.backbone),
        "embedding_dim": subnetwork.head.embedding_dim,
        "features": tensors["head.linear.weight"].shape[1],
        "preprocessing": vars(subnetwork.preprocessing),
    }
    try:
        with replace_folder(folder) as staged:
            write_folder(staged, config, tensors)
    except OSError as error:
        raise FamilyError(f"{folder} could not be written ({error}); what was there before is unchanged") from error
    return folder


def load_subnetwork(path: str | os.PathLike[str], backbone: nn.Module | None = None) -> Subnetwork:
    """Read a subnetwork folder. `backbone` (any instance of the architecture) is for one that timm cannot create."""
    folder = Path(path)
    config = read_config(folder, FORMAT, VERSION)
    stored = read_folder(folder, config)
    try:
        if backbone is None:
            backbone = rebuild_backbone(config["backbone"])
            if "width" in config["backbone"]:
                backbone, _ = narrow_backbone(backbone, float(config["backbone"]["width"]))
        subnetwork = Subnetwork(
            resize(backbone, config.get("shapes", {})),
            EmbeddingHead(config["features"], config["embedding_dim"]),
            capacity=check_capacity(config["capacity"]),
            family_id=str(config["family_id"]),
            preprocessing=Preprocessing(**config["preprocessing"]),
            adapted=config["adapted"] is True,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FamilyError(f"{folder / 'config.json'} describes no subnetwork that can be built ({error!r})") from error
    fill(saved_tensors(subnetwork), stored, folder)
    return subnetwork.eval()
