"""The network alone: nothing is pruned while training. What every other method is measured against."""

from collections.abc import Iterator

import torch
from torch import Tensor

from prunnet.methods.losses import LossName, create_loss
from prunnet.methods.summed_losses import SummedLosses
from prunnet.network import PrunableNetwork


class Dense(SummedLosses):
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
        super().__init__(autocast)
        self.network = network
        network.capacities = ()
        self.loss = create_loss(loss, network.head.embedding_dim, classes, label_smoothing)
        self.loss.to(next(network.parameters()).device)
        self._call = (torch.compile(network) if compile else network,)  # in a tuple: no second name for its parameters

    @property
    def family(self) -> PrunableNetwork:
        return self.network

    @property
    def connections(self) -> int:
        return sum(weight.numel() for weight in self.network.weights.values())

    def losses(self, images: Tensor, labels: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield "1", self.loss(self._call[0](images, normalise=False), labels)
