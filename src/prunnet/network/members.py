"""A family of separate networks, one per capacity: independent ones, or new ones beside an existing family."""

import copy
import json
import os
from collections.abc import Iterable
from pathlib import Path

from torch import nn

from prunnet._files import replace_folder
from prunnet.errors import CapacityError, FamilyError
from prunnet.network.capacity import check_capacity, format_capacity
from prunnet.network.family import load
from prunnet.network.folders import check_replaceable, read_config
from prunnet.network.prunable import PrunableNetwork
from prunnet.network.subnetwork import Family, Subnetwork
from prunnet.network.subnetwork_folder import load_subnetwork, save_subnetwork

FORMAT = "prunnet-members"
VERSION = 1


class Members(nn.Module):
    """`members` by capacity; what they lack, `base` may have: the family they were trained to be compatible with.

    Members that are not `compatible` have an id each, so that nobody searches the gallery of one with another.
    """

    def __init__(self, members: Iterable[Subnetwork], base: Family | None = None, *, compatible: bool = True) -> None:
        super().__init__()
        self.compatible = compatible
        ordered = sorted(members, key=lambda member: member.capacity, reverse=True)
        self.members = nn.ModuleList(ordered)
        self._base = (base,)  # in a tuple, since it is neither trained nor saved with the members
        first = ordered[0]
        self.preprocessing = first.preprocessing
        self.family_id = first.family_id if base is None else _id_at(base, 1.0)

    @property
    def base(self) -> Family | None:
        return self._base[0]

    @property
    def embedding_dim(self) -> int:
        """The same of all members."""
        return next(iter(self.by_capacity.values())).head.embedding_dim

    @property
    def by_capacity(self) -> dict[float, Subnetwork]:
        """The members themselves, largest first."""
        return {member.capacity: member for member in self.members if isinstance(member, Subnetwork)}

    @property
    def capacities(self) -> tuple[float, ...]:
        """Every capacity below 1 that there is."""
        found = {*self.by_capacity, *(self.base.capacities if self.base is not None else ())} - {1.0}
        return tuple(sorted(found, reverse=True))

    def subnetwork(self, capacity: float) -> Subnetwork:
        """A copy of the member at `capacity`, in evaluation mode."""
        capacity = check_capacity(capacity)
        member = self.by_capacity.get(capacity)
        if member is None:
            if self.base is not None:
                return self.base.subnetwork(capacity)
            have = ", ".join(format_capacity(one) for one in self.by_capacity)
            raise CapacityError(f"family {self.family_id} has members at {have}; found {format_capacity(capacity)}")
        taken = copy.deepcopy(member)
        taken.family_id = _id_at(self, capacity)
        return taken.eval()


def save_members(family: Family, capacities: Iterable[float], path: str | os.PathLike[str]) -> Path:
    """Write the members of any family as a folder of subnetwork folders, whole or not at all."""
    folder = Path(path)
    check_replaceable(folder, FORMAT, VERSION)
    chosen = sorted(capacities, reverse=True)
    with replace_folder(folder) as staged:
        for capacity in chosen:
            save_subnetwork(family.subnetwork(capacity), staged / _name(capacity))
        config = {"format": FORMAT, "version": VERSION, "family_id": family.family_id, "capacities": chosen}
        if isinstance(family, Members) and not family.compatible:
            config["compatible"] = False
        (staged / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder


def load_members(path: str | os.PathLike[str]) -> Members:
    """Read what `save_members` wrote."""
    folder = Path(path)
    config = read_config(folder, FORMAT, VERSION)
    capacities, family_id = config.get("capacities"), config.get("family_id")
    if not isinstance(capacities, list) or not capacities:
        raise FamilyError(f"{folder / 'config.json'} is damaged: it names no capacities")
    members = [load_subnetwork(folder / _name(check_capacity(capacity))) for capacity in capacities]
    family = Members(members, compatible=config.get("compatible", True))
    family.family_id = str(family_id)
    for member in members:
        if member.family_id != (wanted := _id_at(family, member.capacity)):
            raise FamilyError(f"{folder} mixes families: {member.family_id} is not {wanted}")
    return family


def load_family(path: str | os.PathLike[str]) -> PrunableNetwork | Members:
    """Read a folder of either kind: a prunable network with all its subnetworks, or separate members."""
    folder = Path(path)
    try:
        members = json.loads((folder / "config.json").read_text())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError):
        members = False
    return load_members(folder) if members else load(folder)


def _id_at(family: Family, capacity: float) -> str:
    """What the embeddings of one member say they are."""
    apart = isinstance(family, Members) and not family.compatible
    return f"{family.family_id}-{_name(capacity)}" if apart else family.family_id


def _name(capacity: float) -> str:
    return f"{capacity:.6g}"
