"""Training methods, all under one contract (`Method`), all through one loop."""

from prunnet.methods.bct import BackwardCompatible
from prunnet.methods.capacities import AnyCapacities, Capacities, FixedCapacities
from prunnet.methods.dense import Dense
from prunnet.methods.independent import Independent
from prunnet.methods.joint import Joint
from prunnet.methods.method import Method, Step, StepTelemetry
from prunnet.methods.prunnet import PrunNet, PrunNetOptions
from prunnet.methods.sfsc import SFSC
from prunnet.methods.sspl import SSPL
from prunnet.methods.switchnet import SwitchNet

__all__ = [
    "SFSC",
    "SSPL",
    "AnyCapacities",
    "BackwardCompatible",
    "Capacities",
    "Dense",
    "FixedCapacities",
    "Independent",
    "Joint",
    "Method",
    "PrunNet",
    "PrunNetOptions",
    "Step",
    "StepTelemetry",
    "SwitchNet",
]
