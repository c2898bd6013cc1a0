"""The members folder: a subnetwork folder per capacity, and a `config.json` that says what they are to each other."""

import os
from pathlib import Path

from prunnet._checked import seal, unseal
from prunnet._files import replace_folder
from prunnet.errors import FamilyError
from prunnet.narrow import Members
from prunnet.narrow.members import member_name
from prunnet.network import Family
from prunnet.network.capacity import check_capacity
from prunnet.storage.card import write_card
from prunnet.storage.folders import SEALED, check_replaceable, read_config, write_config
from prunnet.storage.subnetwork_folder import load_subnetwork, save_subnetwork

FORMAT = "prunnet-members"
VERSION = 2  # 1 did not say which family the members extend, and had no checksums


def save_members(family: Family, path: str | os.PathLike[str], base: str | os.PathLike[str] | None = None) -> Path:
    """Write the members of any family, whole or not at all; `base`: where the family that they extend is stored."""
    folder = Path(path)
    check_replaceable(folder, FORMAT, VERSION)
    own = family.by_capacity if isinstance(family, Members) else (1.0, *family.capacities)
    capacities = sorted(own, reverse=True)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "family_id": family.family_id,
        "capacities": capacities,
        "compatible": not isinstance(family, Members) or family.compatible,
        "base": None if base is None else os.path.relpath(base, folder),
    }
    with replace_folder(folder) as staged:
        for capacity in capacities:
            save_subnetwork(family.subnetwork(capacity), staged / member_name(capacity))
        write_config(staged, seal(config))
        write_card(family, staged)
    return folder


def load_members(path: str | os.PathLike[str]) -> tuple[Members, Path | None]:
    """The members, and where the family lies that they extend, if they do."""
    folder = Path(path)
    config = read_config(folder, FORMAT, VERSION)
    if config["version"] >= SEALED[FORMAT]:
        config = unseal(config, folder / "config.json")
    capacities, family_id = config.get("capacities"), config.get("family_id")
    if not isinstance(capacities, list) or not capacities:
        raise FamilyError(f"{folder / 'config.json'} is damaged: it names no capacities")
    members = [load_subnetwork(folder / member_name(check_capacity(capacity))) for capacity in capacities]
    family = Members(members, compatible=config.get("compatible", True))
    family.family_id = str(family_id)
    for member in members:
        if member.family_id != (wanted := family.id_at(member.capacity)):
            raise FamilyError(f"{folder} mixes families: {member.family_id} is not {wanted}")
    base = config.get("base")
    return family, None if base is None else folder / str(base)
