"""Backward-compatible training (BCT): the old model's classifier, frozen, must recognise the new embeddings as well.

New members beside an existing family learn from that classifier alone; a new generation of a whole family from it and
from its own, by any method.
"""

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from prunnet.errors import PrunNetError


class OldClassifier(nn.Module):
    """CE(old classifier(z), y) over images of classes that the old model knew: what a new member of its family learns
    from alone.
    """

    def __init__(self, old: nn.Linear, old_classes: Sequence[int]) -> None:
        """`old_classes[y]`: the old classifier's class of the label y, or -1 for one that it never saw."""
        super().__init__()
        self.old = copy.deepcopy(old).requires_grad_(False)
        self.old_classes: Tensor
        self.register_buffer("old_classes", torch.tensor(list(old_classes)), persistent=False)
        if not any(known >= 0 for known in old_classes):
            raise PrunNetError("none of the training classes is known to the old classifier")

    def forward(self, embedding: Tensor, labels: Tensor) -> Tensor:
        classes = self.old_classes[labels]
        summed = F.cross_entropy(self.old(embedding), classes, ignore_index=-1, reduction="sum")
        return summed / (classes >= 0).sum().clamp_min(1)


class BackwardCompatible(nn.Module):
    """L = L_new(z, y) + CE(old classifier(z), y): a new generation, with a classifier of its own."""

    def __init__(self, loss: nn.Module, old: nn.Linear, old_classes: Sequence[int]) -> None:
        super().__init__()
        self.loss = loss
        self.old = OldClassifier(old, old_classes)

    @property
    def classifier(self) -> nn.Module:
        """The new one, which later models may be made compatible with."""
        return self.loss.get_submodule("classifier")

    def logits(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.loss.logits(embedding)  # type: ignore[operator]
        return logits

    def forward(self, embedding: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.loss(embedding, labels) + self.old(embedding, labels)
        return loss
