"""The network alone: nothing is pruned while training. What every other method is measured against."""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor

from prunnet.methods.losses import LossName, create_loss
from prunnet.methods.method import Method
from prunnet.network import PrunableNetwork


class Dense(Method):
    """One pass, one loss. The scores stay what they were at the start, so its subnetworks are random ones."""

    def __init__(
        self,
        network: PrunableNetwork,
        classes: int,
        *,
        loss: LossName = "cross-entropy",
        label_smoothing: float = 0.0,
        autocast: torch.dtype | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__()
        self.network = network
        self.loss = create_loss(loss, network.head.embedding_dim, classes, label_smoothing)
        self.loss.to(next(network.parameters()).device)
        self.autocast = autocast
        self._call = torch.compile(network) if compile else network

    @property
    def family(self) -> PrunableNetwork:
        return self.network

    def begin(self, step: int) -> None:  # noqa: ARG002
        self.zero_grad()

    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        precision = nullcontext() if self.autocast is None else torch.autocast(images.device.type, self.autocast)
        with precision:
            loss = self.loss(self._call(images, normalise=False), labels)
        (loss * share).backward()
        return {"1": loss.detach()}

    def gradients(self) -> Iterator[Tensor]:
        return (parameter.grad for parameter in self.parameters() if parameter.grad is not None)

    def finish(self) -> None:
        return None
