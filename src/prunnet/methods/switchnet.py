"""SwitchNet: one slimmable network, its widths √c trained on the same batch.

With summed gradients and cross-entropy this is BCT-S, with the contrastive loss Asymmetric-S.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from prunnet.gradients import Integrator, Sum, Telemetry
from prunnet.methods.gradient_stack import GradientStack
from prunnet.methods.losses import LossName, contrastive, create_loss
from prunnet.methods.method import Method
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
        normalise_step: bool = False,
        seed: int = 0,
        autocast: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.integrator = integrator or Sum()
        self.loss = create_loss(loss, network.dense.head.embedding_dim, classes, label_smoothing)
        self.loss.to(next(network.parameters()).device)
        self.contrastive = loss == "contrastive"
        self.normalise_step, self.seed, self.autocast = normalise_step, seed, autocast
        self._stack: GradientStack | None = None

    @property
    def family(self) -> SlimmableNetwork:
        return self.network

    @property
    def shared_parameters(self) -> dict[str, nn.Parameter]:
        """What every width uses; the classifier as well."""
        classifier = {f"loss.{n}": p for n, p in self.loss.named_parameters() if p.requires_grad}
        return {**self.network.shared, **classifier}

    def begin(self, step: int) -> None:
        self._generator = torch.Generator().manual_seed((self.seed * 1_000_003 + step) % 2**63)
        passes = len(self.network.capacities) + 1
        self._stack = GradientStack.reuse(self._stack, passes, self.shared_parameters)
        self.zero_grad()
        self._accumulating = False

    def backward(self, images: Tensor, labels: Tensor, share: float = 1.0) -> dict[str, Tensor]:
        assert self._stack is not None
        losses = {}
        shared = self.shared_parameters
        for row, capacity in enumerate((1.0, *self.network.capacities)):
            with nullcontext() if self.autocast is None else torch.autocast(images.device.type, self.autocast):
                embedding = self.network(images, capacity, normalise=False)
                if row == 0:
                    dense, loss = embedding.detach(), self.loss(embedding, labels)
                elif self.contrastive:
                    loss = contrastive(embedding, dense, labels)
                else:
                    loss = self.compatible_loss(embedding, dense, labels)
            losses[f"{capacity:g}"] = loss.detach()
            own = self.network.own(capacity)
            found = torch.autograd.grad(loss * share, [*shared.values(), *own.values()], materialize_grads=True)
            self._stack.write(row, dict(zip(shared, found, strict=False)), None, add=self._accumulating)
            for parameter, gradient in zip(own.values(), found[len(shared) :], strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        self._accumulating = True
        return losses

    def compatible_loss(self, embedding: Tensor, dense: Tensor, labels: Tensor) -> Tensor:  # noqa: ARG002
        """The loss of a narrower network: cross-entropy through the classifier it shares with all others."""
        loss: Tensor = self.loss(embedding, labels)
        return loss

    def gradients(self) -> Iterator[Tensor]:
        assert self._stack is not None
        yield self._stack.buffer
        yield from (parameter.grad for parameter in self.parameters() if parameter.grad is not None)

    @torch.no_grad()
    def finish(self) -> Telemetry:
        assert self._stack is not None
        integration = self.integrator.integrate(self._stack.layers, generator=self._generator)
        step_size = 1 / len(self._stack.buffer) if self.normalise_step and self.integrator.sums else 1.0
        for name, parameter in self.shared_parameters.items():
            parameter.grad = integration.gradients[name] * step_size
        # of what PrunNet would prune, so that the two can be compared
        layers = [
            name
            for name, parameter in self.network.shared.items()
            if name.startswith("backbone.") and name.endswith(".weight") and parameter.ndim > 1
        ]
        return integration.telemetry.only(layers)
