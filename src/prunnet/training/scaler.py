"""Loss scaling for fp16: gradients too small for half precision are computed on a larger loss.

torch's own GradScaler inspects `.grad`, which here exists only after integration. Integration is linear in scale, so
one factor on every loss and its inverse on the result are all it takes.
"""

from collections.abc import Iterable

from torch import nn


class LossScaler:
    """Halves the factor when a gradient overflows, doubles it after `patience` steps without."""

    def __init__(self, enabled: bool, factor: float = 2.0**14, patience: int = 2000) -> None:
        self.enabled = enabled
        self.factor = factor if enabled else 1.0
        self.patience = patience
        self.good_steps = 0

    def overflowed(self) -> None:
        """Note a step that has to be left out."""
        self.factor, self.good_steps = max(1.0, self.factor / 2), 0

    def unscale(self, parameters: Iterable[nn.Parameter]) -> bool:
        """Give gradients their true size; False if one of them overflowed."""
        if not self.enabled:
            return True
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        finite = True
        for gradient in gradients:
            gradient.div_(self.factor)
            finite = finite and bool(gradient.isfinite().all())
        self.good_steps += 1
        if self.good_steps % self.patience == 0:
            self.factor *= 2
        return finite
