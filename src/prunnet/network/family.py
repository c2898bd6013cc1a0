"""What every kind of family can be asked, be it one prunable network, separate members or a single subnetwork."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from prunnet.errors import CapacityError
from prunnet.network.capacity import check_capacities, format_capacity
from prunnet.network.embeddings import Embeddings
from prunnet.network.preprocessing import Picture, Preprocessing

if TYPE_CHECKING:
    from prunnet.network.subnetwork import Subnetwork


USUAL = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)

ADAPT_BATCHES = 100
"""How many batches batch norm is adapted on, unless said otherwise; None means all there are."""

ALIGN_BATCHES = 200
"""How many batches the norms of members are aligned on, unless said otherwise; 0 means not at all."""


class Family(ABC):
    """All subnetworks of one training. Evaluation, export and search ask nothing else of it."""

    kind: ClassVar[str]
    """What it is, in words for a user."""

    family_id: str
    """Of the space that its embeddings lie in."""
    preprocessing: Preprocessing

    @property
    @abstractmethod
    def capacities(self) -> tuple[float, ...]:
        """Those below 1 that it was trained at."""

    @property
    @abstractmethod
    def embedding_dim(self) -> int:
        """The length of its embeddings, whatever the capacity."""

    @abstractmethod
    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        """Those of `capacities` that it has a subnetwork at, largest first."""

    @property
    def usual_capacities(self) -> tuple[float, ...]:
        """What to look at when nobody says: the usual capacities and those trained, as far as it has them."""
        return self.available((*USUAL, *self.capacities))

    @abstractmethod
    def subnetwork(self, capacity: float) -> "Subnetwork":
        """An independent copy of the subnetwork at `capacity`, or a `CapacityError` that says which there are."""

    @abstractmethod
    def encode(
        self, images: Sequence[Picture] | Picture, capacity: float | None = None, *, batch_size: int = 64
    ) -> Embeddings:
        """Embed pictures for search with the subnetwork at `capacity` (default: the largest), copying no network."""

    @abstractmethod
    def adapt(
        self,
        loader: Iterable[Any],
        capacities: Iterable[float] | None = None,
        *,
        adapt_batches: int | None = ADAPT_BATCHES,
    ) -> None:
        """Give subnetworks the batch-norm statistics of their own activations on `loader`."""

    def renew(self) -> None:
        """Another training makes another space, and so another id."""
        self.family_id = secrets.token_hex(8)

    def forget(self) -> None:  # noqa: B027 - most have nothing to forget
        """Drop what depends on weights that are about to change: adapted statistics, where there are any."""

    def save(self, path: str | PathLike[str]) -> Path:
        """Write it to the folder `path`, where `prunnet.load` finds it."""
        import prunnet

        return prunnet.save(self, path)


def check_available(family: Family, capacities: Iterable[float]) -> tuple[float, ...]:
    """`capacities`, largest first, if `family` has a subnetwork at each of them."""
    wanted = check_capacities(capacities)
    if missing := set(wanted) - set(family.available(wanted)):
        have = ", ".join(map(format_capacity, family.available((1.0, *family.capacities))))
        raise CapacityError(
            f"family {family.family_id} is {family.kind}, with capacities {have}; found {format_capacity(max(missing))}"
        )
    return wanted
