"""The subnetwork folder: `model.safetensors` and a `config.json` with its family, capacity and preprocessing."""

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from prunnet._files import replace_folder
from prunnet.errors import FamilyError
from prunnet.network.backbones import rebuild_backbone, recipe_of
from prunnet.network.capacity import check_capacity
from prunnet.network.folders import check_replaceable, read_config
from prunnet.network.head import EmbeddingHead
from prunnet.network.narrow import narrow_backbone
from prunnet.network.preprocessing import Preprocessing
from prunnet.network.shapes import resize, shape_spec
from prunnet.network.subnetwork import Subnetwork

FORMAT = "prunnet-subnetwork"
VERSION = 1


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
    stamp = {"family_id": subnetwork.family_id, "capacity": repr(subnetwork.capacity)}
    try:
        with replace_folder(folder) as staged:
            contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
            save_file(contiguous, staged / "model.safetensors", metadata=stamp)
            (staged / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    except (OSError, SafetensorError) as error:
        raise FamilyError(f"{folder} could not be written ({error}); what was there before is unchanged") from error
    return folder


def load_subnetwork(path: str | os.PathLike[str], backbone: nn.Module | None = None) -> Subnetwork:
    """Read a subnetwork folder. `backbone` (any instance of the architecture) is for one that timm cannot create."""
    folder = Path(path)
    config = read_config(folder, FORMAT, VERSION)
    try:
        found = load_file(folder / "model.safetensors")
    except (SafetensorError, OSError) as error:
        raise FamilyError(f"{folder / 'model.safetensors'} is missing or damaged ({error}); copy it again") from error
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
    expected = saved_tensors(subnetwork)
    for name in {**expected, **found}:
        if name not in found or name not in expected or found[name].shape != expected[name].shape:
            raise FamilyError(
                f"{folder}: {name} does not fit; the backbone given is another one, or the folder is damaged"
            )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(found[name])
    return subnetwork.eval()


def saved_tensors(module: nn.Module) -> dict[str, Tensor]:
    """What a file holds of `module`, as its own tensors: shared ones once, under their first name."""
    saved = module.state_dict()
    named = dict([*module.named_parameters(), *module.named_buffers()])
    return {name: tensor.detach() for name, tensor in named.items() if name in saved}
