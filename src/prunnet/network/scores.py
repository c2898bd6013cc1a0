"""The learnable score of every connection."""

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn


class Scores(nn.Module):
    """One score per prunable weight, read like a mapping by parameter name. Starts Kaiming-uniform, a = √5.

    Scores lie in a tree of modules shaped like the backbone's, so that in a state dict they are named like the weights.
    """

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._names = tuple(weights)
        for name, weight in weights.items():
            score = torch.empty_like(weight, memory_format=torch.contiguous_format)
            nn.init.kaiming_uniform_(score, a=math.sqrt(5))
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
