"""The family folder: `model.safetensors`, `config.json` and a model card. No pickle, written whole or not at all."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from prunnet._files import replace_folder
from prunnet.errors import FamilyError, ModuleError, PrunNetError
from prunnet.network import Connections, Preprocessing, PrunableNetwork, Selection, convert
from prunnet.network.backbones import rebuild_backbone, recipe_of
from prunnet.storage.card import write_card
from prunnet.storage.folders import check_replaceable, read_config, read_folder, write_folder
from prunnet.storage.tensors import fill, saved_tensors
from prunnet.structured import Filters

FORMAT = "prunnet-family"
VERSION = 2  # 1 said `structured` where 2 names the selection, and had no checksums


def save_family(net: PrunableNetwork, path: str | os.PathLike[str]) -> Path:
    """Write the family folder `path`; an existing family there is replaced, or left as it is if anything fails."""
    folder = Path(path)
    check_replaceable(folder, FORMAT, VERSION)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "family_id": net.family_id,
        "backbone": recipe_of(net.backbone),
        "backbone_class": type(net.backbone).__name__,
        "embedding_dim": net.head.embedding_dim,
        "prunable": list(net.scores),
        "ranking": net.ranking,
        "selection": net.selection.name,
        "preprocessing": vars(net.preprocessing),
        "capacities": list(net.capacities),
        "adapted": list(net.statistics),
    }
    try:
        with replace_folder(folder) as staged:
            write_folder(staged, config, _tensors(net))
            write_card(net, staged)
    except OSError as error:
        raise FamilyError(f"{folder} could not be written ({error}); what was there before is unchanged") from error
    return folder


def load_family(path: str | os.PathLike[str], backbone: nn.Module | None = None) -> PrunableNetwork:
    """Read a family folder. `backbone` (any instance of the architecture) is needed only for one timm cannot create."""
    folder = Path(path)
    config = read_config(folder, FORMAT, VERSION)
    tensors = read_folder(folder, config)
    try:
        preprocessing = Preprocessing(**config["preprocessing"])
        module = backbone if backbone is not None else _rebuild(folder, config)
        net = convert(
            module,
            config["embedding_dim"],
            config["prunable"],
            preprocessing=preprocessing,
            ranking=config["ranking"],
            selection=_selection(config),
        )
        net.family_id = str(config["family_id"])
        net.capacities = tuple(config["capacities"])
        adapted = [float(capacity) for capacity in config["adapted"]]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, PrunNetError):
            raise FamilyError(f"{folder} does not describe a network that can be built: {error}") from error
        raise FamilyError(f"{folder / 'config.json'} is damaged ({error!r}); save the family again") from error
    _make_room(net, adapted)
    fill(_tensors(net), tensors, folder)
    return net.eval()


def _tensors(net: PrunableNetwork) -> dict[str, Tensor]:
    """Every tensor of the file by name, as the network's own."""
    statistics = {f"batchnorm.{name}": tensor for name, tensor in net.statistics.tensors().items()}
    return {**saved_tensors(net), **statistics}


def _make_room(net: PrunableNetwork, capacities: Iterable[float]) -> None:
    """Statistics of `capacities`, to be filled."""
    for capacity in capacities:
        running = {n: t for n, t in saved_tensors(net).items() if n.endswith(("running_mean", "running_var"))}
        net.statistics.put(capacity, {name: torch.empty_like(tensor) for name, tensor in running.items()})


def _rebuild(folder: Path, config: Mapping[str, Any]) -> nn.Module:
    recipe = config["backbone"]
    if recipe is None:
        raise ModuleError(
            f"its backbone {config['backbone_class']} was not made by prunnet.create_backbone; "
            f"pass one: prunnet.load({str(folder)!r}, backbone=...)"
        )
    return rebuild_backbone(recipe)


def _selection(config: Mapping[str, Any]) -> Selection:
    selections: dict[str, type[Selection]] = {selection.name: selection for selection in (Connections, Filters)}
    default = "filters" if config.get("structured") is True else "connections"
    return selections[config["selection"] if config["version"] > 1 else default]()
