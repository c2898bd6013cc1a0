"""Vectors with the shape of real embeddings, and what an index of them must answer."""

from typing import Any

import torch
from torch import Tensor

from prunnet import Embeddings, VectorIndex

FAMILY = "family-a"


def unit(count: int, dimension: int = 8, seed: int = 0) -> Tensor:
    vectors = torch.randn(count, dimension, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(vectors, dim=1)


def embedded(vectors: Tensor, family_id: str = FAMILY, capacity: float = 1.0) -> Embeddings:
    return Embeddings(vectors, family_id, capacity)


def some(count: int, dimension: int = 8, seed: int = 0, family_id: str = FAMILY, capacity: float = 1.0) -> Embeddings:
    return embedded(unit(count, dimension, seed), family_id, capacity)


def names(count: int, start: int = 0) -> list[str]:
    return [f"photo-{number}" for number in range(start, start + count)]


def clustered(count: int, dimension: int = 32, centres: int = 200, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    middle = torch.randn(centres, dimension, generator=torch.Generator().manual_seed(1))
    chosen = torch.randint(centres, (count,), generator=generator)
    vectors = middle[chosen] + 0.6 * torch.randn(count, dimension, generator=generator)
    return torch.nn.functional.normalize(vectors, dim=1)


Contents = dict[str, tuple[list[float], dict[str, Any], float, str]]


def contents(index: VectorIndex) -> Contents:
    """Everything in it by id: vector, metadata, and the member and family that made it."""
    found: Contents = {}
    for vectors, records in index.scan():
        for vector, record in zip(vectors.tolist(), records, strict=True):
            assert record.id not in found, f"{record.id} is there twice"
            found[record.id] = (vector, record.metadata, record.capacity, record.family_id)
    return found
