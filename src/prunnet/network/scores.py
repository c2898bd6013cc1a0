"""The learnable score of every connection."""

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn


class Scores(nn.Module):
    """One score per prunable weight, read like a mapping by parameter name. Starts Kaiming-uniform, a = √5."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        # torch allows no dot in a parameter's name
        self._registered = {name: name.replace(".", "/") for name in weights}
        for name, weight in weights.items():
            score = torch.empty_like(weight, memory_format=torch.contiguous_format)
            nn.init.kaiming_uniform_(score, a=math.sqrt(5))
            self.register_parameter(self._registered[name], nn.Parameter(score))

    def __getitem__(self, name: str) -> nn.Parameter:
        return self.get_parameter(self._registered[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._registered)

    def __len__(self) -> int:
        return len(self._registered)

    def __contains__(self, name: object) -> bool:
        return name in self._registered

    def keys(self) -> Iterable[str]:
        return self._registered.keys()

    def values(self) -> Iterator[nn.Parameter]:
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, self[name]) for name in self)
