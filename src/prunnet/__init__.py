"""PrunNet: compatible visual search on every device from one trained network.

Names are imported on first use, so that `import prunnet` and `prunnet --help` cost nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from prunnet.costs import capacity_for as capacity_for
    from prunnet.costs import cost as cost
    from prunnet.costs import info as info
    from prunnet.data import load_data as load_data
    from prunnet.deploy import bench as bench
    from prunnet.deploy import prune as prune
    from prunnet.deploy.export import export as export
    from prunnet.deploy.export import load_exported as load_exported
    from prunnet.errors import PrunNetError as PrunNetError
    from prunnet.evaluation import CompatibilityMatrix as CompatibilityMatrix
    from prunnet.evaluation import evaluate as evaluate
    from prunnet.experiments import compare as compare
    from prunnet.network import Connections as Connections
    from prunnet.network import Embeddings as Embeddings
    from prunnet.network import Family as Family
    from prunnet.network import NotAdaptedWarning as NotAdaptedWarning
    from prunnet.network import Preprocessing as Preprocessing
    from prunnet.network import PrunableNetwork as PrunableNetwork
    from prunnet.network import ScoreMaps as ScoreMaps
    from prunnet.network import Subnetwork as Subnetwork
    from prunnet.network import adapt_batchnorm as adapt_batchnorm
    from prunnet.network import convert as convert
    from prunnet.network import create_backbone as create_backbone
    from prunnet.runs import Run as Run
    from prunnet.runtime import Runtime as Runtime
    from prunnet.search import VectorIndex as VectorIndex
    from prunnet.search import index as index
    from prunnet.serve import Client as Client
    from prunnet.storage import load as load
    from prunnet.storage import save as save
    from prunnet.storage.prun import pack as pack
    from prunnet.storage.prun import unpack as unpack
    from prunnet.structured import Filters as Filters
    from prunnet.structured import structured_subnetwork as structured_subnetwork
    from prunnet.training import train as train

_HOMES = {
    "costs": ("capacity_for", "cost", "info"),
    "data": ("load_data",),
    "deploy": ("bench", "prune"),
    "deploy.export": ("export", "load_exported"),
    "errors": ("PrunNetError",),
    "evaluation": ("CompatibilityMatrix", "evaluate"),
    "experiments": ("compare",),
    "network": (
        "Connections",
        "Embeddings",
        "Family",
        "NotAdaptedWarning",
        "Preprocessing",
        "PrunableNetwork",
        "ScoreMaps",
        "Subnetwork",
        "adapt_batchnorm",
        "convert",
        "create_backbone",
    ),
    "runs": ("Run",),
    "runtime": ("Runtime",),
    "search": ("VectorIndex", "index"),
    "serve": ("Client",),
    "storage": ("load", "save"),
    "storage.prun": ("pack", "unpack"),
    "structured": ("Filters", "structured_subnetwork"),
    "training": ("train",),
}
"""The public names, by the room that owns them."""

_ROOMS = (
    "costs",
    "data",
    "demo",
    "deploy",
    "errors",
    "evaluation",
    "experiments",
    "gradients",
    "methods",
    "narrow",
    "network",
    "report",
    "runs",
    "runtime",
    "search",
    "serve",
    "storage",
    "structured",
    "training",
)

_EXPORTS = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_EXPORTS), *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"prunnet.{name}")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'prunnet' has no attribute {name!r}")
    return getattr(import_module(f"prunnet.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
