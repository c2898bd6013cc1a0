"""A small network that needs every operation of the runtime, and files of it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import prunnet

GRID = (0.2, 0.4, 1.0)
SIDE = 32
CAPACITIES = (0.05, 0.1, 0.2, 0.4, 1.0)
PROMISED = (
    *("resnet18", "resnet50", "resnext50_32x4d", "mobilenetv2_100", "tf_efficientnet_lite0", "vit_small_patch16_224"),
)
"""Backbones whose embeddings are compared in full size, at these capacities."""


class EveryOperation(nn.Module):
    """A convolutional stem with all its variants, squeeze and excitation, then tokens with attention."""

    def __init__(self, hidden: int = 24) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.dilated = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=2, bias=False)
        self.dilated_norm = nn.BatchNorm2d(8)
        self.expand = nn.Conv2d(8, 16, 1, bias=False)
        self.expand_norm = nn.BatchNorm2d(16)
        self.deep = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.reduce = nn.Conv2d(16, 8, 1)
        self.depthwise = nn.Conv2d(8, 8, (3, 5), padding=(1, 2), groups=8)
        self.squeeze = nn.Conv2d(8, 4, 1)
        self.excite = nn.Conv2d(4, 8, 1)
        self.later_norm = nn.BatchNorm2d(8)
        self.strided = nn.Conv2d(16, 16, 2, stride=2)
        self.scale = nn.Parameter(torch.rand(16))
        self.first = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 17, 16))
        self.token_norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.project = nn.Linear(16, 16, bias=False)
        self.wide = nn.Linear(16, hidden)
        self.narrow = nn.Linear(hidden, 16)
        self.last_norm = nn.LayerNorm(16)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu6(self.norm(self.stem(F.pad(images, (0, 1, 0, 1)))))
        x = F.max_pool2d(x, 3, 2, 1)
        y = F.silu(self.dilated_norm(self.dilated(x)) + x)
        gate = F.hardsigmoid(self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        y = F.relu6(self.deep(F.silu(self.expand_norm(self.expand(y * gate)))))
        y = F.hardswish(self.depthwise(self.reduce(y)))
        y = F.leaky_relu(self.later_norm(F.pad(torch.tanh(y), (1, 0, 0, 1))), 0.1)
        y = F.avg_pool2d(torch.cat([y, torch.sigmoid(y)], 1), 2, 1, 0)
        y = F.gelu(self.strided(y)) * self.scale.view(1, -1, 1, 1)
        tokens = torch.cat([self.first.expand(len(y), -1, -1), y.flatten(2).transpose(1, 2)], 1) + self.position
        tokens = tokens + self._attend(self.token_norm(tokens))
        tokens = tokens + self.narrow(F.gelu(self.wide(tokens), approximate="tanh"))
        tokens = self.last_norm(tokens)
        return tokens[:, 0] + tokens[:, 1:].mean(1)

    def _attend(self, tokens: Tensor) -> Tensor:
        batch, count, size = tokens.shape
        q, k, v = self.qkv(tokens).reshape(batch, count, 3, 2, size // 2).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v)
        return self.project(attended.transpose(1, 2).reshape(batch, count, size))


def every_operation(hidden: int = 24) -> prunnet.PrunableNetwork:
    """Adapted at every capacity of `GRID`."""
    torch.manual_seed(0)
    net = prunnet.convert(EveryOperation(hidden), 8, preprocessing=prunnet.Preprocessing((3, SIDE, SIDE), crop_pct=0.9))
    nn.init.normal_(net.head.norm.bias)
    prunnet.adapt_batchnorm(net, [torch.randn(16, 3, SIDE, SIDE)], capacities=GRID)
    return net.eval()


def whole_backbone(name: str) -> prunnet.PrunableNetwork:
    """A backbone in full size, untrained, adapted at `CAPACITIES`."""
    torch.manual_seed(0)
    net = prunnet.convert(prunnet.create_backbone(name), 64)
    nn.init.normal_(net.head.norm.bias)
    prunnet.adapt_batchnorm(net, [torch.randn(2, *net.preprocessing.input_size)], capacities=CAPACITIES)
    return net.eval()
