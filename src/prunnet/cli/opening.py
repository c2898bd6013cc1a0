"""What commands open: whatever `prunnet.load` does, or a timm model that was never trained."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prunnet.network import Family


def is_stored(source: str) -> bool:
    """Whether `source` is a path or an address, and not the name of a model."""
    from prunnet.storage.prun.source import is_address

    return is_address(source) or Path(source).exists() or len(Path(source).parts) > 1


def open_model(source: str) -> "Family":
    """A run, family, members, subnetwork or `.prun`, or a network of timm by its name."""
    import prunnet

    return prunnet.load(source) if is_stored(source) else prunnet.convert(prunnet.create_backbone(source))
