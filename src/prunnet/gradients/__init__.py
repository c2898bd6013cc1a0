"""N + 1 gradients in, one out.

PrunNet differentiates one loss per subnetwork, so every weight receives m = N + 1 gradients. An integrator makes one of
them. It is called with the stacked gradients of a weight, those of the dense network first:

>>> import torch
>>> from prunnet.gradients import ConflictAware
>>> dense, subnetwork = torch.tensor([3.0, 0.0]), torch.tensor([-3.0, 4.0])
>>> ConflictAware()(torch.stack([dense, subnetwork]))
tensor([1.9200, 5.4400])

The two conflict, so each was first projected off the other, and the result opposes neither. All layers of a network go
in one call, which also tells what it has seen:

>>> convolution, linear = torch.ones(3, 8, 4, 3, 3), torch.ones(3, 5, 8)
>>> convolution[2] *= -1
>>> integration = ConflictAware().integrate({"conv1": convolution, "fc": linear})
>>> integration.gradients["conv1"].shape
torch.Size([8, 4, 3, 3])
>>> integration.telemetry.conflicting_pairs
tensor([16,  0])

================  =====================================================  ============================
integrator        combines                                               without conflict it returns
================  =====================================================  ============================
`ConflictAware`   projected gradients, by how far they were turned       Σ g_i
`Direct`          projected gradients, all alike                         Σ g_i
`PCGrad`          the same, on the network as one vector                 Σ g_i
`Sum`             gradients                                              Σ g_i
`Mean`            gradients                                              Σ g_i / m
`Pareto`          gradients, to the convex combination of least norm     that combination
================  =====================================================  ============================

Learning rates only compare between integrators of the same scale.
"""

from prunnet.errors import GradientError

from ._blocks import Blocks, Granularity
from ._conflict_aware import ConflictAware, Rule
from ._direct import Direct
from ._gram import check_finite
from ._integrator import Integration, Integrator
from ._mean import Mean
from ._named import IntegratorName, create_integrator
from ._pareto import Pareto
from ._pcgrad import PCGrad
from ._sum import Sum
from ._telemetry import Telemetry

__all__ = [
    "Blocks",
    "ConflictAware",
    "Direct",
    "GradientError",
    "Granularity",
    "Integration",
    "Integrator",
    "IntegratorName",
    "Mean",
    "PCGrad",
    "Pareto",
    "Rule",
    "Sum",
    "Telemetry",
    "check_finite",
    "create_integrator",
]
