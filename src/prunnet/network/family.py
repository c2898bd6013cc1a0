"""The family folder: `model.safetensors`, `config.json` and a model card. No pickle, written whole or not at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from prunnet._files import replace_folder
from prunnet.errors import FamilyError, ModuleError, PrunNetError
from prunnet.network.backbones import rebuild_backbone, recipe_of
from prunnet.network.card import model_card
from prunnet.network.folders import check_replaceable, read_config
from prunnet.network.preprocessing import Preprocessing
from prunnet.network.prunable import PrunableNetwork, convert

FORMAT = "prunnet-family"
VERSION = 1


def save(net: PrunableNetwork, path: str | os.PathLike[str]) -> Path:
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
        "structured": net.structured,
        "preprocessing": vars(net.preprocessing),
        "capacities": list(net.capacities),
        "adapted": list(net.statistics),
    }
    try:
        with replace_folder(folder) as staged:
            save_file(_tensors(net), staged / "model.safetensors", metadata={"family_id": net.family_id})
            (staged / "config.json").write_text(json.dumps(config, indent=2) + "\n")
            (staged / "README.md").write_text(model_card(net, config))
    except (OSError, SafetensorError) as error:
        raise FamilyError(f"{folder} could not be written ({error}); what was there before is unchanged") from error
    return folder


def load(path: str | os.PathLike[str], backbone: nn.Module | None = None) -> PrunableNetwork:
    """Read a family folder. `backbone` (any instance of the architecture) is needed only for one timm cannot create."""
    folder = Path(path)
    config = read_config(folder, FORMAT, VERSION)
    tensors = _read_tensors(folder / "model.safetensors")
    try:
        preprocessing = Preprocessing(**config["preprocessing"])
        module = backbone if backbone is not None else _rebuild(folder, config)
        net = convert(
            module,
            config["embedding_dim"],
            config["prunable"],
            preprocessing=preprocessing,
            ranking=config["ranking"],
            structured=config.get("structured", False) is True,
        )
        net.family_id = str(config["family_id"])
        net.capacities = tuple(config["capacities"])
        adapted = [float(capacity) for capacity in config["adapted"]]
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, PrunNetError):
            raise FamilyError(f"{folder} does not describe a network that can be built: {error}") from error
        raise FamilyError(f"{folder / 'config.json'} is damaged ({error!r}); save the family again") from error
    expected = _tensors(net, adapted)
    _check_tensors(folder, tensors, expected)
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(tensors[name])
    return net.eval()


def _tensors(net: PrunableNetwork, adapted: list[float] | None = None) -> dict[str, Tensor]:
    """Every tensor of the file by name, as views of the network's own; room is made for `adapted` statistics."""
    state = {f"{part}.{n}": t for part in ("backbone", "head") for n, t in getattr(net, part).state_dict().items()}
    scores = {f"scores.{name}": score.detach() for name, score in net.scores.items()}
    for capacity in adapted or ():
        running = {n: torch.empty_like(t) for n, t in state.items() if n.endswith(("running_mean", "running_var"))}
        net.statistics.put(capacity, running)
    statistics = {
        f"batchnorm.{capacity!r}.{name}": tensor
        for capacity in net.statistics
        for name, tensor in (net.statistics.get(capacity) or {}).items()
    }
    return _without_aliases({**state, **scores, **statistics})


def _without_aliases(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Shared parameters once, under their first name; contiguous, as the file wants them."""
    seen: set[tuple[int, torch.Size]] = set()
    unique = {}
    for name, tensor in tensors.items():
        key = (tensor.data_ptr(), tensor.shape)
        if tensor.numel() and key in seen:
            continue
        seen.add(key)
        unique[name] = tensor
    return unique


def _read_tensors(file: Path) -> Mapping[str, Tensor]:
    try:
        return load_file(file)
    except FileNotFoundError as error:
        raise FamilyError(f"{file} is missing; the folder was copied without its weights") from error
    except (SafetensorError, OSError) as error:
        raise FamilyError(
            f"{file} is truncated or damaged ({error}); copy it again or save the family again"
        ) from error


def _rebuild(folder: Path, config: Mapping[str, Any]) -> nn.Module:
    recipe = config["backbone"]
    if recipe is None:
        raise ModuleError(
            f"its backbone {config['backbone_class']} was not made by prunnet.create_backbone; "
            f"pass one: prunnet.load({str(folder)!r}, backbone=...)"
        )
    return rebuild_backbone(recipe)


def _check_tensors(folder: Path, found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    advice = "the backbone given is another one, or the folder is damaged"
    for name, tensor in expected.items():
        if name not in found:
            raise FamilyError(f"{folder} lacks the tensor {name}; {advice}")
        if found[name].shape != tensor.shape:
            shapes = f"{tuple(found[name].shape)}, the network expects {tuple(tensor.shape)}"
            raise FamilyError(f"{folder}: {name} has shape {shapes}; {advice}")
    if extra := next((name for name in found if name not in expected), None):
        raise FamilyError(f"{folder} has the tensor {extra}, which the network does not know; {advice}")
