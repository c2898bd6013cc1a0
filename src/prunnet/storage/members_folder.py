"""The members folder: a subnetwork folder per capacity, and a `config.json` that says what they are to each other."""

import os
from pathlib import Path

from prunnet._files import replace_folder
from prunnet.errors import FamilyError
from prunnet.narrow import Members
from prunnet.narrow.members import member_name
from prunnet.network import Family
from prunnet.storage.documents import MembersDocument, described
from prunnet.storage.folders import check_replaceable, read_config, write_config
from prunnet.storage.subnetwork_folder import load_subnetwork, save_subnetwork


def save_members(family: Family, path: str | os.PathLike[str], base: str | os.PathLike[str] | None = None) -> Path:
    """Write the members of any family, whole or not at all; `base`: where the family that they extend is stored."""
    folder = Path(path)
    check_replaceable(folder, MembersDocument)
    own = family.by_capacity if isinstance(family, Members) else (1.0, *family.capacities)
    capacities = sorted(own, reverse=True)
    if len({member_name(capacity) for capacity in capacities}) < len(capacities):
        raise FamilyError(f"{folder} cannot hold members this close to each other: {', '.join(map(repr, capacities))}")
    document = described(
        MembersDocument,
        family_id=family.family_id,
        capacities=capacities,
        compatible=not isinstance(family, Members) or family.compatible,
        base=None if base is None else os.path.relpath(base, folder),
    )
    with replace_folder(folder) as staged:
        for capacity in capacities:
            save_subnetwork(family.subnetwork(capacity), staged / member_name(capacity))
        write_config(staged, document)
    return folder


def load_members(path: str | os.PathLike[str]) -> tuple[Members, Path | None]:
    """The members, and where the family lies that they extend, if they do."""
    folder = Path(path)
    document = read_config(folder, MembersDocument).document
    members = [load_subnetwork(folder / member_name(capacity)) for capacity in document.capacities]
    family = Members(members, compatible=document.compatible)
    family.family_id = document.family_id
    for capacity, member in zip(document.capacities, members, strict=True):
        if (member.family_id, member.capacity) != (wanted := (family.id_at(capacity), capacity)):
            raise FamilyError(
                f"{folder} mixes families: {member_name(capacity)} holds {member.capacity!r} of {member.family_id!r}, "
                f"not {wanted[1]!r} of {wanted[0]!r}"
            )
    return family, None if document.base is None else folder / document.base
