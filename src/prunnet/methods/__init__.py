"""Training methods, all under one contract (`Method`), all through one loop."""

from prunnet.methods.capacities import AnyCapacities, Capacities, FixedCapacities
from prunnet.methods.dense import Dense
from prunnet.methods.method import Method
from prunnet.methods.prunnet import PrunNet, PrunNetOptions
from prunnet.methods.score_maps import ScoreMapsNetwork

__all__ = [
    "AnyCapacities",
    "Capacities",
    "Dense",
    "FixedCapacities",
    "Method",
    "PrunNet",
    "PrunNetOptions",
    "ScoreMapsNetwork",
]
