"""SwitchNet: one slimmable network, its widths √c trained on the same batch.

With summed gradients and cross-entropy this is BCT-S, with the contrastive loss Asymmetric-S.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from prunnet.gradients import Integrator, Sum, check_finite
from prunnet.methods.gradient_stack import GradientStack, assign
from prunnet.methods.losses import LossName, contrastive, create_loss
from prunnet.methods.method import Method, Step, StepTelemetry, generator_for, gradients_of
from prunnet.narrow.slimmable import SlimmableNetwork


class SwitchNet(Method):
    """Gradients of shared weights and classifier are integrated; norms belong to one width and get its gradient."""

    def __init__(
        self,
        network: SlimmableNetwork,
        classes: int,
        *,
        integrator: Integrator | None = None,
        loss: LossName = "cross-entropy",
        label_smoothing: float = 0.0,
        normalise_step: bool = True,
        seed: int = 0,
        autocast: torch.dtype | None = None,
    ) -> None:
        super().__init__(autocast)
        self.network = network
        self.integrator = integrator or Sum()
        self.loss = create_loss(loss, network.dense.head.embedding_dim, classes, label_smoothing)
        self.loss.to(next(network.parameters()).device)
        self.contrastive = loss == "contrastive"
        self.normalise_step, self.seed = normalise_step, seed
        self._stack: GradientStack | None = None

    @property
    def family(self) -> SlimmableNetwork:
        return self.network

    @property
    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """What every width uses; the classifier as well."""
        classifier = {f"loss.{n}": p for n, p in self.loss.named_parameters() if p.requires_grad}
        return {**self.network.shared, **classifier}

    def compatible_loss(self, embedding: Tensor, dense: Tensor, labels: Tensor) -> Tensor:
        """The loss of a narrower network: by default cross-entropy through the classifier it shares with all others."""
        loss: Tensor = contrastive(embedding, dense, labels) if self.contrastive else self.loss(embedding, labels)
        return loss

    def step(self, number: int, *, scale: float = 1.0) -> "SwitchNetStep":
        self.zero_grad()
        passes = len(self.network.capacities) + 1
        self._stack = GradientStack.reuse(self._stack, passes, self.shared_parameters)
        return SwitchNetStep(self, self._stack, generator_for(self.seed, number), scale)


class SwitchNetStep(Step):
    """A pass per width, the dense network's first."""

    def __init__(self, method: SwitchNet, stack: GradientStack, generator: torch.Generator, scale: float) -> None:
        super().__init__(scale)
        self.method, self.stack, self.generator = method, stack, generator
        self.accumulating = False
        """Whether an earlier micro-batch has left gradients in the stack."""

    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        method, network = self.method, self.method.network
        losses = {}
        for row, capacity in enumerate((1.0, *network.capacities)):
            with method.precision(images):
                embedding = network(images, capacity, normalise=False)
                if row == 0:
                    dense, loss = embedding.detach(), method.loss(embedding, labels)
                else:
                    loss = method.compatible_loss(embedding, dense, labels)
            losses[f"{capacity:g}"] = loss.detach()
            self._differentiate(row, loss * (share * self.scale), network.own(capacity))
        self.accumulating = True
        return losses

    def _differentiate(self, row: int, loss: Tensor, own: dict[str, nn.Parameter]) -> None:
        """Gradients of what all widths share go into the stack, those of this width's norms where they belong."""
        shared = self.method.shared_parameters
        gradients = torch.autograd.grad(loss, [*shared.values(), *own.values()], materialize_grads=True)
        self.stack.write(row, dict(zip(shared, gradients, strict=False)), None, add=self.accumulating)
        for parameter, gradient in zip(own.values(), gradients[len(shared) :], strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient

    def gradients(self) -> Iterator[Tensor]:
        yield self.stack.buffer
        yield from gradients_of(self.method).values()

    @property
    def stacked_values(self) -> int:
        return self.stack.buffer.numel()

    def _finish(self) -> StepTelemetry:
        method = self.method
        check_finite(gradients_of(method))
        integration = method.integrator.integrate(self.stack.layers, generator=self.generator)
        step_size = method.integrator.mean_factor(len(self.stack.buffer)) if method.normalise_step else 1.0
        assign(method.shared_parameters, integration.gradients, step_size)
        # of what PrunNet would prune, so that the two can be compared
        layers = [
            name
            for name, parameter in method.network.shared.items()
            if name.startswith("backbone.") and name.endswith(".weight") and parameter.ndim > 1
        ]
        return StepTelemetry(integration.telemetry.only(layers))
