"""The error of this room."""

from prunnet.errors import PrunNetError


class GradientError(PrunNetError, ValueError):
    """Gradients that cannot be integrated, or an integrator that cannot exist."""
