"""The learnable score of every connection, and what a capacity keeps by them: connections, filters or score maps."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn

from prunnet.errors import CapacityError, ModuleError
from prunnet.network.allocation import Allocation, AllocationName, Sensitive, Uniform, protecting
from prunnet.network.capacity import check_capacities, format_capacity
from prunnet.network.ranking import Masks, rank
from prunnet.network.sensitivity import measured_sensitivities

ScoreStart = Literal["random", "magnitude"]
"""Kaiming-uniform with a = √5, or |w| at the same size: a trained network's small members then begin as parts of it."""


class Scores(nn.Module):
    """One score per prunable weight, read like a mapping by parameter name.

    Scores lie in a tree of modules shaped like the backbone's, so that in a state dict they are named like the weights.
    """

    def __init__(self, weights: Mapping[str, Tensor], start: ScoreStart = "random") -> None:
        super().__init__()
        self._names = tuple(weights)
        for name, weight in weights.items():
            score = torch.empty_like(weight, memory_format=torch.contiguous_format)
            nn.init.kaiming_uniform_(score, a=math.sqrt(5))
            if start == "magnitude":
                _start_at_magnitude(score, weight)
            owner, _, key = name.rpartition(".")
            self._owner(owner).register_parameter(key, nn.Parameter(score))

    def _owner(self, path: str) -> nn.Module:
        """The module at `path`, made where it is missing; a backbone may name its parts as a mapping its methods."""
        module: nn.Module = self
        for part in filter(None, path.split(".")):
            if part not in module._modules:
                module._modules[part] = nn.Module()
            child = module._modules[part]
            assert child is not None
            module = child
        return module

    def __getitem__(self, name: str) -> nn.Parameter:
        if name not in self._names:
            raise KeyError(name)
        owner, _, key = name.rpartition(".")
        score = self._owner(owner)._parameters[key]
        assert score is not None
        return score

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def keys(self) -> Iterable[str]:
        return self._names

    def values(self) -> Iterator[nn.Parameter]:
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, self[name]) for name in self)


if TYPE_CHECKING:
    from prunnet.network.prunable import PrunableNetwork

SelectionName = Literal["connections", "filters", "maps"]


@torch.no_grad()
def _start_at_magnitude(score: Tensor, weight: Tensor) -> None:
    """|w|, with the root mean square that the random scores have; they stay where a layer is all zero."""
    size, usual = weight.square().mean().sqrt(), score.square().mean().sqrt()
    if size > 0:
        score.copy_(weight.abs() * (usual / size))


class Selection(nn.Module, ABC):
    """How the scores of a network become the masks of a capacity. Belongs to one network, which attaches it."""

    name: ClassVar[SelectionName]
    """As settings and files say it."""
    nested: ClassVar[bool] = True
    """Whether one score map decides, so that a smaller subnetwork is part of every larger one."""
    allocation: Allocation = Uniform()
    """How a capacity is divided among layers, where it is a share of their connections."""

    def attach(self, net: "PrunableNetwork") -> None:
        """Look at the network once, when it is made."""

    @abstractmethod
    def masks(self, net: "PrunableNetwork", capacities: Sequence[float]) -> list[Masks]:
        """r(s) of Eq. 1 at each of `capacities`, by parameter name."""

    def scores_at(self, net: "PrunableNetwork", capacity: float) -> Scores:  # noqa: ARG002
        """The scores that decide at `capacity`."""
        return net.scores

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        """Those of `capacities` that there is a subnetwork at, largest first."""
        return check_capacities(capacities)


class Connections(Selection):
    """Every layer keeps its connections with the highest scores (Eq. 1), as many as `allocation` gives it."""

    name = "connections"

    def __init__(self, allocation: AllocationName | Allocation = "protected") -> None:
        super().__init__()
        self._wanted = allocation

    def attach(self, net: "PrunableNetwork") -> None:
        match self._wanted:
            case "uniform":
                self.allocation = Uniform()
            case "protected":
                self.allocation = protecting(net.backbone, net.weights)
            case "measured":
                input_size = net.preprocessing.input_size
                self.allocation = Sensitive(measured_sensitivities(net.backbone, net.weights, input_size), "measured")
            case Allocation():
                self.allocation = self._wanted
            case _:
                names = ", ".join(get_args(AllocationName))
                raise ModuleError(f"allocation must be one of {names}; found {self._wanted!r}")

    def masks(self, net: "PrunableNetwork", capacities: Sequence[float]) -> list[Masks]:
        return rank(dict(net.scores.items()), capacities, net.ranking, self.allocation)  # type: ignore[no-any-return]


class ScoreMaps(Selection):
    """The ablation without greedy pruning: one score map per capacity, each choosing from the whole network.

    Such a network answers only at the capacities it has a map for, and its subnetworks are not nested.
    """

    name = "maps"
    nested = False

    def __init__(self, capacities: Iterable[float]) -> None:
        super().__init__()
        self.capacities = tuple(capacity for capacity in check_capacities(capacities) if capacity < 1.0)
        self.maps = nn.ModuleList()

    def attach(self, net: "PrunableNetwork") -> None:
        self.maps.extend(Scores(net.weights, net.score_start) for _ in self.capacities)
        net.scores.requires_grad_(False)  # the maps decide
        net.capacities = self.capacities

    def masks(self, net: "PrunableNetwork", capacities: Sequence[float]) -> list[Masks]:
        return [self._masks(net, capacity) for capacity in capacities]

    def _masks(self, net: "PrunableNetwork", capacity: float) -> Masks:
        if capacity == 1.0:
            everything: Mapping[str, Tensor] = {
                name: torch.ones_like(weight, dtype=torch.bool) for name, weight in net.weights.items()
            }
            return everything
        masks: Masks = rank(dict(self.scores_at(net, capacity).items()), (capacity,), net.ranking)[0]
        return masks

    def scores_at(self, net: "PrunableNetwork", capacity: float) -> Scores:  # noqa: ARG002
        if capacity not in self.capacities:
            have = ", ".join(map(format_capacity, (1.0, *self.capacities)))
            raise CapacityError(f"this network has a score map for each of {have}; found {format_capacity(capacity)}")
        scores = self.maps[self.capacities.index(capacity)]
        assert isinstance(scores, Scores)
        return scores

    def available(self, capacities: Iterable[float]) -> tuple[float, ...]:
        return tuple(c for c in check_capacities(capacities) if c in (1.0, *self.capacities))
