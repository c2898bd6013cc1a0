"""SFSC: a SwitchNet whose compatible losses count the less the more uncertain their network is, and whose conflicting
gradients are projected off each other.

Uncertainty is evidential: e = exp(logits) is evidence for the classes, α = e + 1 the parameters of a Dirichlet
distribution, u = K / Σα what remains unknown. The weights are this project's reading of a brief description: the
certainty 1 − u of a narrower network relative to that of the dense one on the same batch.
"""

import torch
from torch import Tensor

from prunnet.methods.switchnet import SwitchNet

_LARGEST_LOGIT = 30.0  # exp stays finite, and nothing is unknown long before


def uncertainty(logits: Tensor) -> Tensor:
    """u in (0, 1] of each image."""
    evidence = logits.float().clamp(max=_LARGEST_LOGIT).exp()
    return logits.shape[1] / (evidence + 1).sum(1)


def evidential_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """−log of the probability the Dirichlet distribution expects of the true class, α_y / Σα."""
    alpha = logits.float().clamp(max=_LARGEST_LOGIT).exp() + 1
    return (alpha.sum(1).log() - alpha.gather(1, labels[:, None])[:, 0].log()).mean()


def relative_certainty(logits: Tensor, dense_logits: Tensor) -> Tensor:
    """The weight of a narrower network: its 1 − u against the dense one's, averaged over the batch."""
    return (1 - uncertainty(logits).mean()) / (1 - uncertainty(dense_logits).mean())


class SFSC(SwitchNet):
    """Its integrator is `PCGrad`: projection of the network's gradients as one vector each."""

    def compatible_loss(self, embedding: Tensor, dense: Tensor, labels: Tensor) -> Tensor:
        logits = self.loss.logits(embedding)
        with torch.no_grad():
            weight = relative_certainty(logits, self.loss.logits(dense))
        return weight * evidential_loss(logits, labels)
