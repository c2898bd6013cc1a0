"""`prunnet.load` and `prunnet.save`: whatever was stored, opened as what it says it is."""

import json
import os
from pathlib import Path

from torch import nn

from prunnet._files import restore
from prunnet.errors import FamilyError
from prunnet.narrow import Members
from prunnet.network import Family, PrunableNetwork, Subnetwork
from prunnet.storage import family_folder, members_folder, subnetwork_folder
from prunnet.storage.card import write_card
from prunnet.storage.prun.reading import unpack
from prunnet.storage.prun.source import is_address

MODEL = "model"
"""Where a run folder keeps the family it trained."""


def save(family: Family, path: str | os.PathLike[str]) -> Path:
    """Write any family to the folder `path`; one already there is replaced, or left as it is if anything fails."""
    folder = save_bare(family, path)
    if not isinstance(family, Subnetwork):
        write_card(family, folder)
    return folder


def save_bare(family: Family, path: str | os.PathLike[str], base: str | os.PathLike[str] | None = None) -> Path:
    """The same without a model card; `base` is where the family is stored that new members extend."""
    if isinstance(family, Subnetwork):
        return subnetwork_folder.save_subnetwork(family, path)
    if isinstance(family, PrunableNetwork) and family.selection.nested:
        return family_folder.save_family(family, path)
    return members_folder.save_members(family, path, base)


def load(source: str | os.PathLike[str], backbone: nn.Module | None = None, *, capacity: float | None = None) -> Family:
    """Open a run, a family, members, a subnetwork or a `.prun` file (its path or address).

    backbone: any instance of the architecture, needed only for one that timm cannot create. It is used, not copied.
    capacity: of a `.prun`, how much of it to read (default: all that is there); of anything else, the subnetwork to
        return instead of the family.
    """
    if is_packed(source):
        return unpack(source, capacity, backbone=backbone)
    family = _load_folder(folder_of(source), backbone)
    return family if capacity is None else family.subnetwork(capacity)


def is_packed(source: str | os.PathLike[str]) -> bool:
    """Whether `source` is one file, here or on the web, as a `.prun` is."""
    return is_address(source) or Path(source).is_file()


def folder_of(source: str | os.PathLike[str]) -> Path:
    """The folder of a family itself, or the one in which a run keeps it."""
    folder = Path(source)
    for place in (folder, folder / MODEL):
        restore(place)
    if not folder.exists():
        raise FamilyError(f"{folder} does not exist")
    if not (folder / "config.json").is_file() and (folder / MODEL).is_dir():
        return folder / MODEL
    return folder


def format_of(folder: Path) -> str | None:
    """What the `config.json` of a folder says it is."""
    try:
        format = json.loads((folder / "config.json").read_text())["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # whoever reads it says what is wrong
    return str(format)


def _load_folder(folder: Path, backbone: nn.Module | None, extending: tuple[Path, ...] = ()) -> Family:
    match format_of(folder):
        case "prunnet-members":
            return _load_members(folder, (*extending, folder.resolve()))
        case "prunnet-subnetwork":
            return subnetwork_folder.load_subnetwork(folder, backbone)
        case _:
            return family_folder.load_family(folder, backbone)


def _load_members(folder: Path, extending: tuple[Path, ...]) -> Members:
    """With the family they extend, where that is still stored."""
    family, base = members_folder.load_members(folder)
    if base is None:
        return family
    if not base.is_dir():
        family.extends = str(base)
        return family
    if base.resolve() in extending:
        raise FamilyError(f"{folder} extends {base}, which extends it; save the members again")
    return Members(family.by_capacity.values(), _load_folder(base, None, extending), compatible=family.compatible)
