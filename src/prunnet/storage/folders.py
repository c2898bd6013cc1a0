"""What folders of networks have in common: a `config.json` that says what they are, and sealed tensors tied to it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from prunnet._checked import file_digest, load_tensors, save_tensors
from prunnet._files import restore
from prunnet.errors import DamagedError, FamilyError

CONFIG, TENSORS = "config.json", "model.safetensors"
SEALED = {"prunnet-family": 2, "prunnet-members": 2, "prunnet-subnetwork": 2}
"""The first version of each format whose files carry checksums."""


def write_folder(staged: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """`config.json`, and `model.safetensors` with its seal, the family's id and the checksum of the config."""
    write_config(staged, config)
    stamp = {"family_id": str(config["family_id"]), "config": file_digest(staged / CONFIG)}
    try:
        save_tensors(tensors, staged / TENSORS, stamp)
    except SafetensorError as error:  # how it says that the disk is full
        raise OSError(str(error)) from error


def write_config(staged: Path, config: Mapping[str, Any]) -> None:
    (staged / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read_folder(folder: Path, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors beside `config`, if both are what was written together."""
    sealed = config["version"] >= SEALED[config["format"]]
    tensors, stamp = load_tensors(folder / TENSORS, sealed=sealed)
    if sealed and stamp.get("config") != file_digest(folder / CONFIG):
        raise DamagedError(f"{folder / CONFIG} is damaged: it is not the one that was saved with the weights")
    if "family_id" in stamp and stamp["family_id"] != config.get("family_id"):
        raise DamagedError(
            f"{folder} mixes families: its config.json says {config.get('family_id')}, its weights {stamp['family_id']}"
        )
    return tensors


def read_config(folder: Path, format: str, version: int) -> dict[str, Any]:
    """The `config.json` of a folder of this `format` (such as prunnet-family), or one line on what is wrong with it."""
    restore(folder)
    file, kind = folder / CONFIG, format.removeprefix("prunnet-")
    if not file.is_file():
        raise FamilyError(f"{folder} is no {kind} folder: it has no config.json")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise FamilyError(f"{file} is damaged ({error}); save the {kind} again") from error
    if not isinstance(config, dict) or config.get("format") != format:
        raise FamilyError(f"{folder} is no {kind} folder: its config.json does not say {format!r}")
    if type(config.get("version")) is not int or config["version"] > version:
        raise FamilyError(
            f"{folder} has format version {config.get('version')}, this prunnet reads up to {version}; upgrade prunnet"
        )
    return config


def check_replaceable(folder: Path, format: str, version: int) -> None:
    """Refuse to write over anything but an empty folder or an earlier one of the same format."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        read_config(folder, format, version)
    except FamilyError:
        kind = format.removeprefix("prunnet-")
        raise FamilyError(f"{folder} exists and is no {kind} folder; choose another path") from None
