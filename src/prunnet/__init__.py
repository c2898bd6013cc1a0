"""PrunNet: compatible visual search on every device from one trained network.

Names are imported on first use, so that `import prunnet` and `prunnet --help` cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from prunnet.errors import PrunNetError as PrunNetError
    from prunnet.network import Embeddings as Embeddings
    from prunnet.network import NotAdaptedWarning as NotAdaptedWarning
    from prunnet.network import Preprocessing as Preprocessing
    from prunnet.network import PrunableNetwork as PrunableNetwork
    from prunnet.network import Subnetwork as Subnetwork
    from prunnet.network import adapt_batchnorm as adapt_batchnorm
    from prunnet.network import capacity_for as capacity_for
    from prunnet.network import convert as convert
    from prunnet.network import cost as cost
    from prunnet.network import create_backbone as create_backbone
    from prunnet.network import load as load
    from prunnet.network import save as save

_EXPORTS = {
    "Embeddings": "prunnet.network",
    "NotAdaptedWarning": "prunnet.network",
    "Preprocessing": "prunnet.network",
    "PrunNetError": "prunnet.errors",
    "PrunableNetwork": "prunnet.network",
    "Subnetwork": "prunnet.network",
    "adapt_batchnorm": "prunnet.network",
    "capacity_for": "prunnet.network",
    "convert": "prunnet.network",
    "cost": "prunnet.network",
    "create_backbone": "prunnet.network",
    "load": "prunnet.network",
    "save": "prunnet.network",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'prunnet' has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
