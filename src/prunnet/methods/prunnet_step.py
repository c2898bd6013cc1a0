"""One step of PrunNet: a pass of the dense network and one per subnetwork, their gradients integrated into one.

Per pass one gradient E = ∂L/∂(w·r(s)) is enough. Eq. 2 gives the rest elementwise: ∂L/∂w = r(s)·E and ∂L/∂s = w·E, the
latter filtered by r(s) for subnetworks, and carrying the sign of s when connections are ranked by |s|.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from prunnet.gradients import Telemetry, check_finite
from prunnet.methods.gradient_stack import GradientStack, assign
from prunnet.methods.method import Step, StepTelemetry
from prunnet.network.functional import masked
from prunnet.network.ranking import Masks

if TYPE_CHECKING:
    from prunnet.methods.prunnet import PrunNet


class PrunNetStep(Step):
    """The `capacities` of one step with their masks, and a row of gradients for each pass, the dense network's first.

    weights: where gradients of the prunable weights land.
    shared: where those of everything else land: one row, unless they are to be integrated as well.
    """

    def __init__(
        self,
        method: "PrunNet",
        capacities: tuple[float, ...],
        weights: GradientStack,
        shared: GradientStack,
        generator: torch.Generator,
        scale: float,
    ) -> None:
        super().__init__(scale)
        self.method, self.network, self.options = method, method.network, method.options
        self.capacities, self.weights, self.shared, self.generator = capacities, weights, shared, generator
        self.masks: list[Masks | None] = [None, *method.network.masks_at(capacities)]
        self.accumulating = False
        """Whether an earlier micro-batch has left gradients in the stacks."""

    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        names = ["1", *self.options.capacities.names(self.capacities)]
        losses = {}
        for row, (name, masks) in enumerate(zip(names, self.masks, strict=True)):
            leaves = {n: weight.detach().requires_grad_() for n, weight in self._effective(row, masks).items()}
            weights = {**leaves, **self._masked_shared(masks)}
            with self.method.precision(images):
                embedding = self._embed(row, images, weights)
                if row == 0:
                    dense, loss = embedding.detach(), self.method.loss(embedding, labels)
                else:
                    loss = self.method.subnetwork_loss(embedding, dense, labels)
            losses[name] = loss.detach()
            self._differentiate(row, loss * (share * self.scale), leaves, masks)
        self.accumulating = True
        return losses

    def _effective(self, row: int, masks: Masks | None) -> dict[str, Tensor]:
        """w·r(s), kept where the gradient of this pass will land, unless that of an earlier micro-batch is there."""
        weights = {name: weight.detach() for name, weight in self.network.weights.items()}
        if masks is None:
            return weights
        if self.accumulating:
            return {name: weight * masks[name] for name, weight in weights.items()}
        rows = {name: self.weights.layers[name][row] for name in weights}
        return {name: torch.mul(weight, masks[name], out=rows[name]) for name, weight in weights.items()}

    def _masked_shared(self, masks: Masks | None) -> dict[str, Tensor]:
        """Biases and norms of dropped filters are dropped too; their gradients find the way through the mask."""
        if masks is None:
            return {}
        shared = {name: mask for name, mask in masks.items() if name not in self.network.scores}
        return masked(self.network.backbone, shared)

    def _embed(self, row: int, images: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        """The dense pass updates the network's own batch-norm statistics, the others a copy."""
        network = self.network
        statistics = network.statistics_for(self.capacities[row - 1]) if row else {}
        return self.method.embed_with(network.backbone, network.head, images, weights=weights, statistics=statistics)

    def _differentiate(self, row: int, loss: Tensor, leaves: Mapping[str, Tensor], masks: Masks | None) -> None:
        wanted = self.options.shared
        shared = {} if wanted == "dense" and row > 0 else self.method.shared_parameters
        gradients = torch.autograd.grad(loss, [*leaves.values(), *shared.values()], materialize_grads=True)
        self.weights.write(row, dict(zip(leaves, gradients, strict=False)), masks, add=self.accumulating)
        of_shared = dict(zip(shared, gradients[len(leaves) :], strict=True))
        if wanted == "mean":
            for gradient in of_shared.values():
                gradient.div_(len(self.masks))
        target = row if wanted == "integrated" else 0
        self.shared.write(target, of_shared, None, add=self.accumulating or target != row)

    def gradients(self) -> Iterator[Tensor]:
        yield self.weights.buffer
        yield self.shared.buffer

    @property
    def stacked_values(self) -> int:
        return self.weights.buffer.numel() + self.shared.buffer.numel()

    def _finish(self) -> StepTelemetry:
        options = self.options
        self._clip_passes()
        step_size = options.integrator.mean_factor(len(self.masks)) if options.normalise_step else 1.0
        integration = options.integrator.integrate(self.weights.layers, generator=self.generator)
        if not options.frozen_weights:
            assign(self.network.weights, integration.gradients, step_size)
        scores = None if options.frozen_scores else self._finish_scores(step_size)
        self._finish_shared(step_size)
        return StepTelemetry(integration.telemetry, scores)

    def _clip_passes(self) -> None:
        """Bound the gradient of each subnetwork."""
        if self.options.clip_passes is not None:
            for row in self.weights.buffer[1:]:
                row.mul_((self.options.clip_passes / row.norm().clamp_min(1e-30)).clamp_max(1.0))

    def _finish_scores(self, step_size: float) -> Telemetry | None:
        """∂L/∂s of every pass from its ∂L/∂w, in place, then integrated in turn."""
        network, weights, layers = self.network, self.network.weights, self.weights.layers
        signed = network.ranking == "signed"
        if not network.selection.nested:  # each score map belongs to one pass, so there is nothing to integrate
            for row, capacity in enumerate(self.capacities, start=1):
                for name, score in network.selection.scores_at(network, capacity).items():
                    score.grad = layers[name][row] * (weights[name] if signed else weights[name] * score.sign())
            return None
        for name, score in network.scores.items():
            layers[name].mul_(weights[name] if signed else weights[name] * score.sign())
        integration = self.options.integrator.integrate(layers, generator=self.generator)
        assign(dict(network.scores.items()), integration.gradients, step_size)
        return integration.telemetry

    def _finish_shared(self, step_size: float) -> None:
        """Norms, biases, head and classifier get the gradient that was asked for."""
        parameters, layers = self.method.shared_parameters, self.shared.layers
        if self.options.shared == "integrated":
            integration = self.options.integrator.integrate(layers, generator=self.generator)
            assign(parameters, integration.gradients, step_size)
        else:
            gradients = {name: rows[0] for name, rows in layers.items()}
            check_finite(gradients)
            assign(parameters, gradients)
