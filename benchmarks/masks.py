"""What pruning costs on ResNet-18: masks of four capacities in training, a masked pass in inference.

    python benchmarks/masks.py

Targets: masks at most 0.05 of one dense training step (112 px, batch 64); `net(x, capacity=c)` at most 1.05 times the
plain backbone with the same weights (batch 64).
"""

import torch
import torch.nn.functional as F

import prunnet
from _timing import show
from prunnet._timing import medians
from prunnet.network.ranking import rank

torch.manual_seed(0)
net = prunnet.convert(prunnet.create_backbone("resnet18"))
images, labels = torch.randn(64, 3, 112, 112), torch.randint(0, 256, (64,))
optimiser = torch.optim.SGD([*net.backbone.parameters(), *net.head.parameters()], lr=1e-3, momentum=0.9)


def dense_training_step() -> None:
    net.train()
    optimiser.zero_grad()
    F.cross_entropy(net(images, normalise=False), labels).backward()
    optimiser.step()


def masks_of_four_capacities() -> None:
    rank(dict(net.scores.items()), (0.8, 0.6, 0.4, 0.2))


training = medians({"dense training step": dense_training_step, "four masks": masks_of_four_capacities}, rounds=9)
show(training)

prunnet.adapt_batchnorm(net, [images], capacities=(0.2,))
net.eval()
subnetwork = net.subnetwork(0.2)


@torch.inference_mode()
def plain_backbone() -> None:
    subnetwork(images)


@torch.inference_mode()
def masked_pass() -> None:
    net(images, capacity=0.2)


inference = medians({"plain backbone": plain_backbone, "net(x, capacity=0.2)": masked_pass}, rounds=15)
show(inference)
print(f"masked_inference_over_plain: {inference['net(x, capacity=0.2)'] / inference['plain backbone']:.3f}")
print(f"masks_over_training_step: {training['four masks'] / training['dense training step']:.4f}")
