"""A subnetwork in prunnet's own runtime, by way of a progressive file of which it is the only band."""

import tempfile
from pathlib import Path

from prunnet.deploy.export.tracing import detached
from prunnet.network import PrunableNetwork, Subnetwork
from prunnet.network.backbones import prunable_parameters
from prunnet.runtime import Runtime
from prunnet.storage.prun import pack


def runner(subnetwork: Subnetwork) -> Runtime:
    """`subnetwork`, with values in half precision; its zeros are not multiplied."""
    copied = detached(subnetwork)
    weights = prunable_parameters(copied.backbone)
    whole = PrunableNetwork(copied.backbone, copied.head, weights, copied.preprocessing, score_start="magnitude")
    with tempfile.TemporaryDirectory() as folder:
        return Runtime(pack(whole, Path(folder) / "subnetwork.prun", grid=(1.0,), runtime=True))
