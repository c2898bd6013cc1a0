"""Small networks with every kind of tie between channels, and batch norms whose constants would show."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import prunnet

SMALL = prunnet.Preprocessing((3, 32, 32))
_TINY_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}
_MADE: dict[str, Callable[[], nn.Module]] = {
    "resnet18": lambda: prunnet.create_backbone("resnet18", channels=[16, 32, 32, 64]),
    "resnet50": lambda: prunnet.create_backbone("resnet50", channels=[8, 8, 16, 32]),
    "resnext50_32x4d": lambda: prunnet.create_backbone(
        "resnext50_32x4d", cardinality=4, base_width=16, channels=[8, 8, 16, 32]
    ),
    "mobilenetv2": lambda: prunnet.create_backbone("mobilenetv2_035"),
    "vit": lambda: prunnet.create_backbone("vit_tiny_patch16_224", **_TINY_VIT),
    "branches": lambda: Branches(),
}
BACKBONES = list(_MADE)


class Branches(nn.Module):
    """A convolution with bias, a depthwise one, two branches concatenated, and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.branch = nn.Conv2d(16, 8, 1)
        self.hidden = nn.Linear(24, 40)
        self.out = nn.Linear(40, 12)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(images)))
        x = torch.relu(self.depthwise(x))
        x = torch.cat([x, self.branch(x)], dim=1).mean((2, 3))
        return self.out(torch.relu(self.hidden(x)))


def make_network(name: str, selection: prunnet.network.Selection | None = None) -> prunnet.PrunableNetwork:
    """A fresh network in evaluation mode with batch norms far from their initial state."""
    torch.manual_seed(0)
    net = prunnet.convert(_MADE[name](), 16, preprocessing=SMALL, selection=selection).eval()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.5, 0.5)
            layer.running_mean.uniform_(-0.2, 0.2)
            layer.running_var.uniform_(0.5, 1.5)
    return net


def random_images(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, *SMALL.input_size, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(autouse=True)
def one_thread(one_thread: None) -> None:
    """Threads that wait for each other take longer than these networks."""


@pytest.fixture
def adapted_net() -> prunnet.PrunableNetwork:
    """A small network that has statistics for 0.5 and 0.2."""
    net = make_network("branches")
    prunnet.adapt_batchnorm(net, [random_images(32, seed=1)], capacities=(0.5, 0.2))
    return net
