"""The networks that are stored and damaged, and how to tell whether one is still the same."""

import warnings
from typing import Any

import torch
from torch import Tensor

import prunnet
from fuzzing.harness import WrongError

OPTIONS = {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]}
VIT = {"in_chans": 1, "img_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}
CAPACITIES = (0.2, 0.5, 1.0)
SIZE = (1, 16, 16)


def images(count: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(count, *SIZE, generator=torch.Generator().manual_seed(seed))


def network(name: str = "resnet18", selection: Any = None, **options: Any) -> prunnet.PrunableNetwork:
    """A tiny family with statistics at every capacity."""
    torch.manual_seed(0)
    backbone = prunnet.create_backbone(name, **(options or OPTIONS))
    net = prunnet.convert(backbone, 8, preprocessing=prunnet.Preprocessing(SIZE), selection=selection)
    net.capacities = (0.5, 0.2) if selection is None else (0.5,)
    prunnet.adapt_batchnorm(net, [images(16, seed=1)], capacities=net.capacities)
    return net.eval()


@torch.no_grad()
def embedding(net: Any, capacity: float | None = None) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", prunnet.NotAdaptedWarning)
        result: Tensor = net(images()) if capacity is None else net.subnetwork(capacity)(images())
    return result


def check_same(net: Any, expected: Tensor, capacity: float | None = None) -> str:
    """What was only damaged must be what was written."""
    if not torch.equal(embedding(net, capacity), expected):
        raise WrongError("silently different")
    return "same"


def check_sound(net: Any, capacity: float | None = None) -> str:
    """What was forged may be another network, but must be one."""
    if not embedding(net, capacity).isfinite().all():
        raise WrongError("an embedding that is not finite")
    return "forged"
