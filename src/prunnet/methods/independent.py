"""Independent learning: every network alone, with its own classifier. Nothing makes them compatible."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from prunnet.methods.bct import OldClassifier
from prunnet.methods.losses import LossName, create_loss
from prunnet.methods.summed_losses import SummedLosses
from prunnet.narrow.members import Members


class Independent(SummedLosses):
    """Networks of width √c, trained side by side on the same batches without knowing of each other."""

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
        self.classifiers = nn.ModuleList(
            create_loss(loss, members.embedding_dim, classes, label_smoothing).to(next(members.parameters()).device)
            for _ in members.by_capacity
        )

    @property
    def family(self) -> Members:
        return self.members

    def hear(self, old: nn.Linear, old_classes: Sequence[int]) -> None:
        """BCT: in place of classifiers of their own, which would pull the members away from the old space."""
        self.classifiers = nn.ModuleList(OldClassifier(old, old_classes) for _ in self.classifiers)

    def losses(self, images: Tensor, labels: Tensor) -> Iterator[tuple[str, Tensor]]:
        for (capacity, member), loss in zip(self.members.by_capacity.items(), self.classifiers, strict=True):
            yield f"{capacity:g}", loss(member(images, normalise=False), labels)
