"""PrunNet: the dense network and N subnetworks on the same batch, their gradients integrated into one.

What the method is made of and what its losses are; `prunnet_step` differentiates and integrates them.
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from prunnet.errors import PrunNetError
from prunnet.gradients import ConflictAware, Integrator
from prunnet.methods.capacities import FOUR, Capacities, FixedCapacities
from prunnet.methods.gradient_stack import GradientStack
from prunnet.methods.losses import LossName, contrastive, create_loss, distillation
from prunnet.methods.method import Method, generator_for
from prunnet.methods.prunnet_step import PrunNetStep
from prunnet.network import PrunableNetwork
from prunnet.network.functional import embed_with

Shared = Literal["dense", "mean", "integrated"]


@dataclass(frozen=True)
class PrunNetOptions:
    """The switches of the method. The defaults of the paper are those of `capacities`, `integrator` and `loss`."""

    capacities: Capacities = field(default_factory=lambda: FixedCapacities(FOUR))
    integrator: Integrator = field(default_factory=ConflictAware)
    loss: LossName = "cross-entropy"
    label_smoothing: float = 0.0
    shared: Shared = "dense"
    """Whose gradient norms, biases, head and classifier get: the dense loss's, the mean, or the integrated one."""
    normalise_step: bool = True
    """Divide out the factor N+1 of integrators that sum, so that a learning rate means the same under all of them."""
    distillation: float = 0.0
    """Weight of a further loss that makes subnetworks follow the dense network's soft output."""
    frozen_scores: bool = False
    frozen_weights: bool = False
    clip_passes: float | None = None
    """Largest norm of one subnetwork's gradient; the authors' code uses 100."""


class PrunNet(Method):
    """Trains a `PrunableNetwork`, with one classifier shared by all passes."""

    def __init__(
        self,
        network: PrunableNetwork,
        classes: int,
        options: PrunNetOptions | None = None,
        *,
        seed: int = 0,
        autocast: torch.dtype | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(autocast)
        self.options = options or PrunNetOptions()
        if self.options.frozen_scores and self.options.frozen_weights:
            raise PrunNetError("frozen_scores and frozen_weights together leave nothing to learn")
        capacities, trained = self.options.capacities, self.options.capacities.reported
        fixed = isinstance(capacities, FixedCapacities) and trained == network.capacities
        if not network.selection.nested and not fixed:
            raise PrunNetError("a network with a score map per capacity is trained at just these capacities")
        network.capacities = trained
        self.network = network
        self.loss = create_loss(self.options.loss, network.head.embedding_dim, classes, self.options.label_smoothing)
        self.loss.to(next(network.parameters()).device)
        self.seed = seed
        self.embed_with = torch.compile(embed_with) if compile else embed_with
        self._stack: GradientStack | None = None
        self._shared_stack: GradientStack | None = None

    @property
    def family(self) -> PrunableNetwork:
        return self.network

    @property
    def connections(self) -> int:
        return sum(weight.numel() for weight in self.network.weights.values())

    @property
    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """Everything that every pass uses unpruned: norms, biases, head, classifier."""
        prunable = {id(weight) for weight in self.network.weights.values()}
        parts = {"backbone": self.network.backbone, "head": self.network.head, "loss": self.loss}
        return {
            f"{part}.{name}": parameter
            for part, module in parts.items()
            for name, parameter in module.named_parameters()
            if id(parameter) not in prunable and parameter.requires_grad
        }

    def subnetwork_loss(self, embedding: Tensor, dense: Tensor, labels: Tensor) -> Tensor:
        """The loss of a subnetwork's `embedding`; `dense` is the dense network's of the same images."""
        loss: Tensor
        if self.options.loss == "contrastive":
            loss = contrastive(embedding, dense, labels)
        else:
            loss = self.loss(embedding, labels)
        if self.options.distillation:
            with torch.no_grad():
                teacher = self.loss.logits(dense)
            loss = loss + self.options.distillation * distillation(self.loss.logits(embedding), teacher)
        return loss

    def step(self, number: int, *, scale: float = 1.0) -> PrunNetStep:
        generator = generator_for(self.seed, number)
        capacities = self.options.capacities.draw(generator)
        passes = len(capacities) + 1
        self._stack = GradientStack.reuse(self._stack, passes, self.network.weights)
        rows = passes if self.options.shared == "integrated" else 1
        self._shared_stack = GradientStack.reuse(self._shared_stack, rows, self.shared_parameters)
        return PrunNetStep(self, capacities, self._stack, self._shared_stack, generator, scale)

    def norms_and_biases(self) -> set[nn.Parameter]:
        """Without scores that are vectors, which decay like the other scores."""
        return super().norms_and_biases() - set(self.network.scores.parameters())
