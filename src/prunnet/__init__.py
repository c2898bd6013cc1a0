"""PrunNet: compatible visual search on every device from one trained network.

Names are imported on first use, so that `import prunnet` and `prunnet --help` cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from prunnet.data import load as load_data  # noqa: F401
    from prunnet.deploy.export import export as export
    from prunnet.deploy.pack import pack as pack
    from prunnet.deploy.pack import unpack as unpack
    from prunnet.errors import PrunNetError as PrunNetError
    from prunnet.evaluation import CompatibilityMatrix as CompatibilityMatrix
    from prunnet.evaluation import evaluate as evaluate
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
    from prunnet.training import train as train

_EXPORTS = {
    "CompatibilityMatrix": "prunnet.evaluation.CompatibilityMatrix",
    "Embeddings": "prunnet.network.Embeddings",
    "NotAdaptedWarning": "prunnet.network.NotAdaptedWarning",
    "Preprocessing": "prunnet.network.Preprocessing",
    "PrunNetError": "prunnet.errors.PrunNetError",
    "PrunableNetwork": "prunnet.network.PrunableNetwork",
    "Subnetwork": "prunnet.network.Subnetwork",
    "adapt_batchnorm": "prunnet.network.adapt_batchnorm",
    "capacity_for": "prunnet.network.capacity_for",
    "convert": "prunnet.network.convert",
    "cost": "prunnet.network.cost",
    "create_backbone": "prunnet.network.create_backbone",
    "evaluate": "prunnet.evaluation.evaluate",
    "export": "prunnet.deploy.export.export",
    "load": "prunnet.network.load",
    "load_data": "prunnet.data.load",
    "pack": "prunnet.deploy.pack.pack",
    "save": "prunnet.network.save",
    "train": "prunnet.training.train",
    "unpack": "prunnet.deploy.pack.unpack",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'prunnet' has no attribute {name!r}")
    module, _, attribute = _EXPORTS[name].rpartition(".")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
