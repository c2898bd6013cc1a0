"""Any nn.Module that maps images to features can be converted; nothing in it has to know about pruning."""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn

import prunnet


class Backbone(nn.Module):
    """Four convolutions, as anyone would write them."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.stem = self._block(1, width)
        self.blocks = nn.Sequential(
            self._block(width, width), self._block(width, 2 * width), self._block(2 * width, 2 * width)
        )

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Sequential:
        convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(self.stem(images)).mean((2, 3))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("runs/own-backbone"))
parser.add_argument("--epochs", type=int, default=10)
options = parser.parse_args()

net = prunnet.convert(
    Backbone(),
    embedding_dim=64,
    prunable=["blocks.*"],  # the stem keeps all its connections; without this line everything is prunable
    preprocessing=prunnet.Preprocessing((1, 32, 32)),
)
print(net)
data = prunnet.load_data("glyphs", classes=60, images_per_class=12, difficulty=0.2)
run = prunnet.train(net, data, out=options.out, epochs=options.epochs, lr=0.2, capacities=(0.5, 0.2))
print(run.matrix)

# No name leads back to a class of yours, so loading takes an instance of it.
again = prunnet.load(options.out, backbone=Backbone())
small = again.subnetwork(0.2)
assert list(small.backbone.state_dict()) == list(Backbone().state_dict())  # your own parameter names
with torch.no_grad():
    print("a batch of two:", tuple(small(torch.zeros(2, 1, 32, 32)).shape))
