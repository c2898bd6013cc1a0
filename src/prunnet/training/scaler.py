"""Loss scaling for fp16: gradients too small for half precision are computed on a larger loss.

torch's own GradScaler inspects `.grad`, which here exists only after passes were clipped and integrated. So a step
divides its scale out itself, before anything looks at its gradients.
"""


class LossScaler:
    """Halves the factor when a gradient overflows, doubles it after `patience` steps without."""

    def __init__(self, enabled: bool, factor: float = 2.0**14, patience: int = 2000) -> None:
        self.enabled = enabled
        self.factor = factor if enabled else 1.0
        self.patience = patience
        self.good_steps = 0

    @property
    def helps(self) -> bool:
        """Whether a smaller factor could keep a gradient from overflowing."""
        return self.factor > 1.0

    def overflowed(self) -> None:
        """Note a step that has to be left out."""
        self.factor, self.good_steps = max(1.0, self.factor / 2), 0

    def succeeded(self) -> None:
        """Note a step whose gradients were finite."""
        if self.enabled:
            self.good_steps += 1
            if self.good_steps % self.patience == 0:
                self.factor *= 2
