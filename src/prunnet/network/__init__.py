"""The prunable network: one backbone, a score per connection, a subnetwork at every capacity."""

from prunnet.network.backbones import create_backbone
from prunnet.network.batchnorm import adapt_batchnorm
from prunnet.network.cost import Cost, capacity_for, cost
from prunnet.network.embeddings import Embeddings
from prunnet.network.family import load, save
from prunnet.network.members import Members, load_family, save_members
from prunnet.network.preprocessing import Preprocessing
from prunnet.network.prunable import PrunableNetwork, convert
from prunnet.network.slimmable import SlimmableNetwork
from prunnet.network.subnetwork import Family, NotAdaptedWarning, Subnetwork

__all__ = [
    "Cost",
    "Embeddings",
    "Family",
    "Members",
    "NotAdaptedWarning",
    "Preprocessing",
    "PrunableNetwork",
    "SlimmableNetwork",
    "Subnetwork",
    "adapt_batchnorm",
    "capacity_for",
    "convert",
    "cost",
    "create_backbone",
    "load",
    "load_family",
    "save",
    "save_members",
]
