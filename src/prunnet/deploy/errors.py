"""What can go wrong on the way to a device."""

from prunnet.errors import PrunNetError


class ExportError(PrunNetError):
    """An export that cannot be made, does not compute what torch computes, or cannot be read back."""
