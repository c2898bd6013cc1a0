import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import prunnet
from prunnet.storage.prun import DEFAULT_GRID, pack


@pytest.fixture(scope="session")
def tiny() -> prunnet.PrunableNetwork:
    """A small network that timm can rebuild, adapted at every capacity of the default grid; tests leave it as it is."""
    torch.manual_seed(0)
    backbone = prunnet.create_backbone("resnet18", in_chans=1, channels=(8, 8, 16, 16), layers=(1, 1, 1, 1))
    preprocessing = prunnet.Preprocessing((1, 32, 32))
    net = prunnet.convert(backbone, 8, preprocessing=preprocessing, selection=prunnet.Connections("uniform"))
    nn.init.normal_(net.head.norm.bias)  # at 5 % no image reaches the head: without a bias its embedding is noise
    prunnet.adapt_batchnorm(net, [torch.randn(16, 1, 32, 32)], capacities=DEFAULT_GRID)
    return net.eval()


@pytest.fixture(scope="session")
def pack_protected(tiny, tmp_path_factory) -> Callable[..., Path]:
    """The same network with a capacity that is divided unevenly among its layers."""
    net = copy.deepcopy(tiny)
    net.selection = prunnet.Connections("protected")
    net.selection.attach(net)
    return lambda **options: pack(net, tmp_path_factory.mktemp("pack") / "tiny.prun", **options)


@pytest.fixture(scope="session")
def pack_tiny(tiny, tmp_path_factory) -> Callable[..., Path]:
    """Packs the small network into a folder of its own."""
    return lambda **options: pack(tiny, tmp_path_factory.mktemp("pack") / "tiny.prun", **options)


@pytest.fixture(scope="session")
def packed(pack_tiny) -> bytes:
    """The small network in half precision."""
    return pack_tiny().read_bytes()


@pytest.fixture(scope="session")
def images() -> torch.Tensor:
    return torch.randn(32, 1, 32, 32, generator=torch.Generator().manual_seed(1))
