"""The prunable network: one backbone, a score per connection, a subnetwork at every capacity."""

from prunnet.network.backbones import create_backbone
from prunnet.network.batchnorm import adapt_batchnorm
from prunnet.network.embeddings import Embeddings
from prunnet.network.family import Family
from prunnet.network.preprocessing import Preprocessing
from prunnet.network.prunable import PrunableNetwork, convert
from prunnet.network.selection import Connections, ScoreMaps, Selection
from prunnet.network.subnetwork import NotAdaptedWarning, Subnetwork

__all__ = [
    "Connections",
    "Embeddings",
    "Family",
    "NotAdaptedWarning",
    "Preprocessing",
    "PrunableNetwork",
    "ScoreMaps",
    "Selection",
    "Subnetwork",
    "adapt_batchnorm",
    "convert",
    "create_backbone",
]
