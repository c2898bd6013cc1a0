"""Losses on embeddings: in logit space through one classifier, or in embedding space against the dense network."""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from prunnet.errors import MissingExtraError, PrunNetError

LossName = Literal["cross-entropy", "arcface", "cosface", "contrastive"]


class CrossEntropy(nn.Module):
    """A linear classifier with bias on the raw embedding, then cross-entropy."""

    def __init__(self, embedding_dim: int, classes: int, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.classifier = nn.Linear(embedding_dim, classes)
        self.label_smoothing = label_smoothing

    def logits(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.classifier(embedding)
        return logits

    def forward(self, embedding: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.logits(embedding), labels, label_smoothing=self.label_smoothing)


class MarginSoftmax(nn.Module):
    """ArcFace or CosFace of pytorch-metric-learning: cosine classifier with a margin on the true class."""

    def __init__(self, kind: Literal["arcface", "cosface"], embedding_dim: int, classes: int) -> None:
        super().__init__()
        try:
            from pytorch_metric_learning import losses
        except ImportError as error:
            raise MissingExtraError("pytorch-metric-learning", "losses", "margin softmax") from error
        self.loss = {"arcface": losses.ArcFaceLoss, "cosface": losses.CosFaceLoss}[kind](classes, embedding_dim)

    def logits(self, embedding: Tensor) -> Tensor:
        logits: Tensor = self.loss.get_logits(embedding)
        return logits

    def forward(self, embedding: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.loss(embedding, labels)
        return loss


def create_loss(
    name: LossName, embedding_dim: int, classes: int, label_smoothing: float = 0.0
) -> CrossEntropy | MarginSoftmax:
    """The discriminative loss `name`. "contrastive" learns the dense network by cross-entropy."""
    if classes < 2:
        raise PrunNetError(f"training needs at least 2 classes; found {classes}")
    if name in ("arcface", "cosface"):
        if label_smoothing:
            raise PrunNetError(f"label_smoothing goes with cross-entropy, not with {name}")
        return MarginSoftmax(name, embedding_dim, classes)
    return CrossEntropy(embedding_dim, classes, label_smoothing)


def contrastive(embedding: Tensor, dense: Tensor, labels: Tensor, temperature: float = 0.1) -> Tensor:
    """Each image's embedding by a subnetwork is drawn to the dense embeddings of its class, away from the others'."""
    similarity = F.normalize(embedding, dim=1) @ F.normalize(dense.detach(), dim=1).T / temperature
    positive = (labels[:, None] == labels[None, :]).to(similarity)
    return -(positive * F.log_softmax(similarity, dim=1)).sum(1).div(positive.sum(1)).mean()


def distillation(logits: Tensor, dense_logits: Tensor) -> Tensor:
    """Divergence of a subnetwork's soft output from the dense network's on the same batch."""
    teacher = F.log_softmax(dense_logits.detach().float(), dim=1)
    return F.kl_div(F.log_softmax(logits.float(), dim=1), teacher, reduction="batchmean", log_target=True)
