"""PrunNet: the dense network and N subnetworks on the same batch, their gradients integrated into one.

Per pass one gradient E = ∂L/∂(w·r(s)) is enough. Eq. 2 gives the rest elementwise: ∂L/∂w = r(s)·E and ∂L/∂s = w·E, the
latter filtered by r(s) for subnetworks, and carrying the sign of s when connections are ranked by |s|.
"""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from prunnet.errors import PrunNetError
from prunnet.gradients import ConflictAware, Integrator, Telemetry
from prunnet.methods.capacities import Capacities, FixedCapacities
from prunnet.methods.gradient_stack import GradientStack
from prunnet.methods.losses import LossName, contrastive, create_loss, distillation
from prunnet.methods.method import Method
from prunnet.network import PrunableNetwork
from prunnet.network.functional import embed_with

Shared = Literal["dense", "mean", "integrated"]


@dataclass(frozen=True)
class PrunNetOptions:
    """The switches of the method. The defaults of the paper are those of `capacities`, `integrator` and `loss`."""

    capacities: Capacities = field(default_factory=lambda: FixedCapacities((0.8, 0.6, 0.4, 0.2)))
    integrator: Integrator = field(default_factory=ConflictAware)
    loss: LossName = "cross-entropy"
    label_smoothing: float = 0.0
    shared: Shared = "dense"
    """Whose gradient norms, biases, head and classifier get: the dense loss's, the mean, or the integrated one."""
    normalise_step: bool = False
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
        super().__init__()
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
        self.autocast = autocast
        self._embed = torch.compile(embed_with) if compile else embed_with
        self._stack: GradientStack | None = None
        self._shared_stack: GradientStack | None = None

    @property
    def family(self) -> PrunableNetwork:
        return self.network

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

    def begin(self, step: int) -> None:
        self._generator = torch.Generator().manual_seed((self.seed * 1_000_003 + step) % 2**63)
        self.drawn = self.options.capacities.draw(self._generator)
        self._masks = self.network.masks_at(self.drawn)
        passes = len(self.drawn) + 1
        self._stack = GradientStack.reuse(self._stack, passes, self.network.weights)
        rows = passes if self.options.shared == "integrated" else 1
        self._shared_stack = GradientStack.reuse(self._shared_stack, rows, self.shared_parameters)
        self._accumulating = False

    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        weights = {name: weight.detach() for name, weight in self.network.weights.items()}
        losses = {}
        names = ["1", *self.options.capacities.names(self.drawn)]
        for row, (name, capacity) in enumerate(zip(names, (1.0, *self.drawn), strict=True)):
            masks = self._masks[row - 1] if row else None
            effective = weights if masks is None else self._effective(row, weights, masks)
            leaves = {n: weight.detach().requires_grad_() for n, weight in effective.items()}
            shared = {} if masks is None else self._masked_shared(masks)
            with self._precision(images):
                # the dense pass updates the network's own batch-norm statistics, the others a copy
                statistics = {} if masks is None else self.network.statistics_for(capacity)
                embedding = self._embed(
                    self.network.backbone,
                    self.network.head,
                    images,
                    weights={**leaves, **shared},
                    statistics=statistics,
                )
                if masks is None:
                    dense, loss = embedding.detach(), self.loss(embedding, labels)
                else:
                    loss = self._subnetwork_loss(embedding, dense, labels)
            losses[name] = loss.detach()
            self._differentiate(row, loss * share, leaves, masks)
        self._accumulating = True
        return losses

    def _effective(self, row: int, weights: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """w·r(s), kept where the gradient of this pass will land, unless that of an earlier micro-batch is there."""
        assert self._stack is not None
        if self._accumulating:
            return {name: weight * masks[name] for name, weight in weights.items()}
        rows = {name: self._stack.layers[name][row] for name in weights}
        return {name: torch.mul(weight, masks[name], out=rows[name]) for name, weight in weights.items()}

    def _masked_shared(self, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Biases and norms of dropped filters are dropped too; their gradients find the way through the mask."""
        names = [name for name in masks if name not in self.network.scores]
        return {name: self.network.backbone.get_parameter(name) * masks[name] for name in names}

    def _subnetwork_loss(self, embedding: Tensor, dense: Tensor, labels: Tensor) -> Tensor:
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

    def _differentiate(
        self, row: int, loss: Tensor, leaves: Mapping[str, Tensor], masks: Mapping[str, Tensor] | None
    ) -> None:
        assert self._stack is not None and self._shared_stack is not None
        of_dense_only = self.options.shared == "dense" and row > 0
        shared = {} if of_dense_only else self.shared_parameters
        found = torch.autograd.grad(loss, [*leaves.values(), *shared.values()], materialize_grads=True)
        gradients = dict(zip(leaves, found, strict=False))
        self._stack.write(row, gradients, masks, add=self._accumulating)
        gradients = dict(zip(shared, found[len(leaves) :], strict=True))
        if self.options.shared == "mean":
            for gradient in gradients.values():
                gradient.div_(len(self.drawn) + 1)
        target = row if self.options.shared == "integrated" else 0
        self._shared_stack.write(target, gradients, None, add=self._accumulating or target != row)

    def gradients(self) -> Iterator[Tensor]:
        for stack in (self._stack, self._shared_stack):
            assert stack is not None
            yield stack.buffer

    @torch.no_grad()
    def finish(self) -> Telemetry:
        assert self._stack is not None and self._shared_stack is not None
        options, layers = self.options, self._stack.layers
        if options.clip_passes is not None:
            for row in self._stack.buffer[1:]:
                row.mul_((options.clip_passes / row.norm().clamp_min(1e-30)).clamp_max(1.0))
        step_size = 1 / len(self._stack.buffer) if options.normalise_step and options.integrator.sums else 1.0

        integration = options.integrator.integrate(layers, generator=self._generator)
        if not options.frozen_weights:
            _assign(self.network.weights, integration.gradients, step_size)
        if not options.frozen_scores:
            self._score_gradients(layers, step_size)
        if options.shared == "integrated":
            shared = options.integrator.integrate(self._shared_stack.layers, generator=self._generator).gradients
            _assign(self.shared_parameters, shared, step_size)
        else:
            _assign(self.shared_parameters, {n: g[0] for n, g in self._shared_stack.layers.items()}, 1.0)
        return integration.telemetry

    def _score_gradients(self, layers: Mapping[str, Tensor], step_size: float) -> None:
        """∂L/∂s of every pass from its ∂L/∂w, in place, then integrated in turn."""
        network, weights = self.network, self.network.weights
        signed = network.ranking == "signed"
        if not network.selection.nested:  # each score map belongs to one pass, so there is nothing to integrate
            for row, capacity in enumerate(self.drawn, start=1):
                for name, score in network.selection.scores_at(network, capacity).items():
                    score.grad = layers[name][row] * (weights[name] if signed else weights[name] * score.sign())
            return
        for name, score in network.scores.items():
            layers[name].mul_(weights[name] if signed else weights[name] * score.sign())
        integrated = self.options.integrator.integrate(layers, generator=self._generator).gradients
        _assign(dict(network.scores.items()), integrated, step_size)

    def _precision(self, images: Tensor) -> "torch.autocast | nullcontext[None]":
        return nullcontext() if self.autocast is None else torch.autocast(images.device.type, self.autocast)

    def undecayed(self) -> set[nn.Parameter]:
        """Biases and norms; scores do decay, as in the authors' code."""
        return super().undecayed() - set(self.network.scores.parameters())


def _assign(parameters: Mapping[str, nn.Parameter], gradients: Mapping[str, Tensor], step_size: float) -> None:
    for name, parameter in parameters.items():
        gradient = gradients[name]
        parameter.grad = gradient if step_size == 1.0 else gradient * step_size
