"""One set of weights at several widths: each takes the leading channels of every layer, and has norms of its own."""

import copy
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from prunnet.errors import CapacityError
from prunnet.narrow.narrowing import NORMS, Slices, narrow
from prunnet.network import Embeddings, Family, Subnetwork
from prunnet.network.batchnorm import put_buffers
from prunnet.network.capacity import check_capacities, check_capacity, format_capacity
from prunnet.network.family import ADAPT_BATCHES
from prunnet.network.functional import embed_batches
from prunnet.network.preprocessing import Picture


class SlimmableNetwork(nn.Module, Family):
    """`dense` and a switch per capacity: a narrower network that owns its norms and borrows everything else."""

    kind = "widths of one network"

    def __init__(self, dense: Subnetwork, capacities: Iterable[float]) -> None:
        super().__init__()
        self.dense = dense
        self._capacities = tuple(c for c in check_capacities(capacities) if c < 1.0)
        self.preprocessing, self.family_id = dense.preprocessing, dense.family_id
        self.shared_names = [name for name, _ in dense.named_parameters() if not _of_norm(dense, name)]
        self.switches = nn.ModuleList()
        self._slices: list[Slices] = []
        for capacity in self.capacities:
            switch, slices = narrow(dense, capacity)
            for name in self.shared_names:
                module, _, key = name.rpartition(".")
                setattr(switch.get_submodule(module), key, None)
            self.switches.append(switch)
            self._slices.append({name: slices[name] for name in self.shared_names})

    @property
    def capacities(self) -> tuple[float, ...]:
        return self._capacities

    @property
    def embedding_dim(self) -> int:
        return self.dense.embedding_dim

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        return tuple(capacity for capacity in check_capacities(capacities) if capacity in (1.0, *self.capacities))

    @property
    def shared(self) -> dict[str, nn.Parameter]:
        """What all widths use: everything but the norms."""
        return {name: self.dense.get_parameter(name) for name in self.shared_names}

    def own(self, capacity: float) -> dict[str, nn.Parameter]:
        """What only the width at `capacity` uses: its norms."""
        network = self._network(capacity)
        return {name: parameter for name, parameter in network.named_parameters() if name not in self.shared_names}

    def borrowed(self, capacity: float) -> dict[str, Tensor]:
        """The leading slices of the shared weights that the width at `capacity` uses."""
        slices = self._slices[self.capacities.index(capacity)]
        return {name: weight[slices[name]] for name, weight in self.shared.items()}

    def forward(self, images: Tensor, capacity: float = 1.0, *, normalise: bool = True) -> Tensor:
        """Embed preprocessed images at one of the widths there are."""
        network, options = self._network(capacity), {"normalise": normalise}
        if capacity == 1.0:
            return network(images, **options)  # type: ignore[no-any-return]
        return functional_call(network, self.borrowed(capacity), (images,), options)  # type: ignore[no-any-return]

    def subnetwork(self, capacity: float) -> Subnetwork:
        """A plain network of the width at `capacity`, independent of this one, in evaluation mode."""
        taken = copy.deepcopy(self._network(capacity))
        if taken.capacity < 1.0:
            for name, weight in self.borrowed(taken.capacity).items():
                module, _, key = name.rpartition(".")
                setattr(taken.get_submodule(module), key, nn.Parameter(weight.detach().clone()))
        taken.family_id = self.family_id
        return taken.eval()

    def encode(
        self, images: Sequence[Picture] | Picture, capacity: float | None = None, *, batch_size: int = 64
    ) -> Embeddings:
        """Embed pictures for search at the width of `capacity` (default: dense)."""
        capacity = 1.0 if capacity is None else check_capacity(capacity)
        vectors = embed_batches(self, self.preprocessing.batches(images, batch_size), capacity=capacity)
        return Embeddings(vectors, self.family_id, capacity)

    def adapt(
        self,
        loader: Iterable[Any],
        capacities: Iterable[float] | None = None,
        *,
        adapt_batches: int | None = ADAPT_BATCHES,
    ) -> None:
        """Every width has norms of its own, so its statistics are where they belong."""
        wanted = (1.0, *self.capacities) if capacities is None else check_capacities(capacities)
        batches = list(islice(loader, adapt_batches))
        for capacity in wanted:
            adapted = self.subnetwork(capacity)
            adapted.adapt(batches, adapt_batches=None)
            put_buffers(self._network(capacity), dict(adapted.named_buffers()))

    def _network(self, capacity: float) -> Subnetwork:
        capacity = check_capacity(capacity)
        if capacity == 1.0:
            return self.dense
        if capacity not in self.capacities:
            have = ", ".join(map(format_capacity, (1.0, *self.capacities)))
            raise CapacityError(f"this network was made with the widths of {have}; found {format_capacity(capacity)}")
        switch = self.switches[self.capacities.index(capacity)]
        assert isinstance(switch, Subnetwork)
        return switch

    def _apply(self, fn: Any, recurse: bool = True) -> "SlimmableNetwork":
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        device = next(self.parameters()).device
        for slices in self._slices:
            for name, index in slices.items():
                slices[name] = tuple(part.to(device) if isinstance(part, Tensor) else part for part in index)
        return self


def _of_norm(network: nn.Module, name: str) -> bool:
    return isinstance(network.get_submodule(name.rpartition(".")[0]), NORMS)
