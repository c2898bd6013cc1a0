"""A family of separate networks, one per capacity: independent ones, or new ones beside an existing family."""

import copy
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from torch import nn

from prunnet.errors import CapacityError
from prunnet.network import Embeddings, Family, Subnetwork
from prunnet.network.capacity import check_capacities, check_capacity, format_capacity
from prunnet.network.family import ADAPT_BATCHES
from prunnet.network.preprocessing import Picture


class Members(nn.Module, Family):
    """`members` by capacity; what they lack, `base` may have: the family they were trained to be compatible with.

    Members that are not `compatible` have an id each, so that nobody searches the gallery of one with another.
    """

    kind = "separate members"

    def __init__(self, members: Iterable[Subnetwork], base: Family | None = None, *, compatible: bool = True) -> None:
        super().__init__()
        self.compatible = compatible
        ordered = sorted(members, key=lambda member: member.capacity, reverse=True)
        self.members = nn.ModuleList(ordered)
        self._base = (base,)  # in a tuple, since it is neither trained nor saved with the members
        first = ordered[0]
        self.preprocessing = first.preprocessing
        self.family_id = first.family_id if base is None else _id_of_dense(base)
        self.extends: str | None = None  # where its base was stored, if that is gone

    @property
    def base(self) -> Family | None:
        return self._base[0]

    @property
    def embedding_dim(self) -> int:
        return next(iter(self.by_capacity.values())).embedding_dim

    @property
    def by_capacity(self) -> dict[float, Subnetwork]:
        """The members themselves, largest first."""
        return {member.capacity: member for member in self.members if isinstance(member, Subnetwork)}

    @property
    def capacities(self) -> tuple[float, ...]:
        """Every capacity below 1 that there is."""
        below = {*self.by_capacity, *(self.base.capacities if self.base is not None else ())} - {1.0}
        return tuple(sorted(below, reverse=True))

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        wanted, own = check_capacities(capacities), self.by_capacity
        from_base = () if self.base is None else self.base.available(c for c in wanted if c not in own)
        return tuple(c for c in wanted if c in own or c in from_base)

    def subnetwork(self, capacity: float) -> Subnetwork:
        """A copy of the member at `capacity`, in evaluation mode."""
        member = self._member(check_capacity(capacity))
        if member is None:
            assert self.base is not None
            return self.base.subnetwork(capacity)
        taken = copy.deepcopy(member)
        taken.family_id = self.id_at(capacity)
        return taken.eval()

    def encode(
        self, images: Sequence[Picture] | Picture, capacity: float | None = None, *, batch_size: int = 64
    ) -> Embeddings:
        """Embed pictures for search with the member at `capacity` (default: the largest there is)."""
        capacity = max(1.0 if self.base else 0.0, *self.by_capacity) if capacity is None else check_capacity(capacity)
        member = self._member(capacity)
        if member is None:
            assert self.base is not None
            return self.base.encode(images, capacity, batch_size=batch_size)
        embeddings = member.encode(images, batch_size=batch_size)
        return Embeddings(embeddings.vectors, self.id_at(capacity), capacity)

    def adapt(
        self,
        loader: Iterable[Any],
        capacities: Iterable[float] | None = None,
        *,
        adapt_batches: int | None = ADAPT_BATCHES,
    ) -> None:
        """Of its own members; those of `base` stay what they are."""
        wanted = self.by_capacity if capacities is None else check_capacities(capacities)
        members = [member for capacity in wanted if (member := self._member(capacity)) is not None]
        batches = list(islice(loader, adapt_batches))
        for member in members:
            member.adapt(batches, adapt_batches=None)

    def renew(self) -> None:
        """New members beside an existing family lie in its space."""
        if self.base is None:
            super().renew()

    def id_at(self, capacity: float) -> str:
        """What the embeddings of one member say they are."""
        return self.family_id if self.compatible else f"{self.family_id}-{member_name(capacity)}"

    def _member(self, capacity: float) -> Subnetwork | None:
        """The member itself, or None where the base has to answer."""
        member = self.by_capacity.get(capacity)
        if member is None and self.base is None:
            have = ", ".join(format_capacity(one) for one in self.by_capacity)
            extended = f"; it extends {self.extends}, which is not there" if self.extends else ""
            raise CapacityError(
                f"family {self.family_id} has members at {have}; found {format_capacity(capacity)}{extended}"
            )
        return member


def member_name(capacity: float) -> str:
    """`0.2`, as the folder of a member is called."""
    return f"{capacity:.6g}"


def _id_of_dense(family: Family) -> str:
    return family.id_at(1.0) if isinstance(family, Members) else family.family_id
