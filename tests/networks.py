"""The backbones every invariant is shown on: the paper's five, a torchvision transformer and a hand-written module."""

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

import prunnet
from prunnet._torchvision import require_torchvision


class HandWritten(nn.Module):
    """Grouped and depthwise convolutions, a weight used twice, batch norm and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.grouped = nn.Conv2d(8, 16, 1, groups=2)
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)
        self.second.weight = self.first.weight

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.stem(images)))
        x = self.grouped(torch.relu(self.depthwise(x))).mean((2, 3))
        return self.second(torch.relu(self.first(x)))


def torchvision_vit() -> nn.Module:
    require_torchvision()
    from torchvision.models import VisionTransformer

    vit = VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64)
    vit.heads = nn.Identity()
    for layer in vit.modules():  # torchvision starts some projections at zero
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return vit


_SMALL = prunnet.Preprocessing((3, 64, 64))
_MADE: dict[str, Callable[[], prunnet.PrunableNetwork]] = {
    **{
        name: lambda name=name: prunnet.convert(prunnet.create_backbone(name), preprocessing=_SMALL)
        for name in ("resnet18", "resnet50", "resnext50_32x4d", "mobilenetv2_100")
    },
    "vit_small_patch16_224": lambda: prunnet.convert(prunnet.create_backbone("vit_small_patch16_224")),
    "torchvision_vit": lambda: prunnet.convert(torchvision_vit(), 16, preprocessing=prunnet.Preprocessing((3, 32, 32))),
    "hand_written": lambda: prunnet.convert(HandWritten(), 16, preprocessing=prunnet.Preprocessing((3, 32, 32))),
}
BACKBONES = list(_MADE)


@cache
def make(name: str) -> prunnet.PrunableNetwork:
    torch.manual_seed(0)
    return _MADE[name]()


def images_for(net: prunnet.PrunableNetwork, count: int = 2, seed: int = 0) -> Tensor:
    return torch.randn(count, *net.preprocessing.input_size, generator=torch.Generator().manual_seed(seed))


def fresh(name: str) -> prunnet.PrunableNetwork:
    """A network of its own, which a test may change."""
    torch.manual_seed(0)
    return _MADE[name]()
