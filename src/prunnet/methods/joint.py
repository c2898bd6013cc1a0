"""Joint learning: separate networks, one classifier. What they share of the classes makes them compatible."""

from collections.abc import Iterator

import torch
from torch import Tensor

from prunnet.methods.losses import LossName, create_loss
from prunnet.methods.summed_losses import SummedLosses
from prunnet.narrow.members import Members


class Joint(SummedLosses):
    """L = Σ_c CE(classifier(z_c), y), one classifier for all networks of width √c."""

    def __init__(
        self,
        members: Members,
        classes: int,
        *,
        loss: LossName = "cross-entropy",
        label_smoothing: float = 0.0,
        autocast: torch.dtype | None = None,
    ) -> None:
        super().__init__(autocast)
        self.members = members
        self.loss = create_loss(loss, members.embedding_dim, classes, label_smoothing)
        self.loss.to(next(members.parameters()).device)

    @property
    def family(self) -> Members:
        return self.members

    def losses(self, images: Tensor, labels: Tensor) -> Iterator[tuple[str, Tensor]]:
        for capacity, member in self.members.by_capacity.items():
            yield f"{capacity:g}", self.loss(member(images, normalise=False), labels)
