"""A real family on real images, small enough to embed in a moment."""

import numpy as np
import pytest
import torch
from torch import nn

import prunnet
from prunnet.data import ImageSet, Protocol, RetrievalData
from prunnet.network import Embeddings, PrunableNetwork


def make_family(seed: int, embedding_dim: int = 8) -> PrunableNetwork:
    torch.manual_seed(seed)
    backbone = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
    preprocessing = prunnet.Preprocessing((1, 12, 12))
    family = prunnet.convert(backbone, embedding_dim, preprocessing=preprocessing)
    prunnet.adapt_batchnorm(family, [torch.randn(32, 1, 12, 12)], capacities=(1, 0.5, 0.2))
    return family.eval()


def images(labels: np.ndarray, seed: int) -> ImageSet:
    """A patch whose place tells the class, under noise."""
    generator = np.random.default_rng(seed)
    arrays = generator.integers(0, 120, (len(labels), 12, 12)).astype(np.uint8)
    for array, label in zip(arrays, labels, strict=True):
        array[2 * label : 2 * label + 4, 2 * label : 2 * label + 4] += 130
    return ImageSet.from_arrays(arrays, labels, [str(label) for label in range(5)])


@pytest.fixture
def data() -> RetrievalData:
    query, gallery = images(np.arange(10) % 5, 1), images(np.arange(30) % 5, 2)
    return RetrievalData("patches", None, query, gallery, Protocol(metric="mAP"))


@pytest.fixture
def family() -> PrunableNetwork:
    return make_family(0)


def made(noises: dict[float, float], data: RetrievalData, family_id: str = "a") -> tuple[list, list]:
    """Embeddings by capacity: the class as a direction, plus noise."""
    parts: tuple[list, list] = [], []
    for number, (capacity, noise) in enumerate(noises.items()):
        for part, part_images in zip(parts, (data.query, data.gallery), strict=True):
            generator = torch.Generator().manual_seed(number * 2 + (part is parts[1]))
            vectors = nn.functional.one_hot(torch.from_numpy(part_images.labels), 5).float()
            vectors = vectors + noise * torch.randn(len(vectors), 5, generator=generator)
            part.append(Embeddings(nn.functional.normalize(vectors), family_id, capacity))
    return parts
