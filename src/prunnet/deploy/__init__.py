"""Deployment: from a family and a device's budget to a file that runs there, and the truth about its speed.

small = prunnet.deploy.prune(net, max_macs="200M", loader=images)     # or capacity=, max_bytes=, max_latency="8ms"
prunnet.deploy.export(small, "small.onnx")                            # checked in onnxruntime before it gets its name
narrow = prunnet.deploy.structured_subnetwork(net, 0.36)              # fewer filters: less time as well
"""

from prunnet.deploy.bench import Timing, bench
from prunnet.deploy.budget import prune
from prunnet.deploy.errors import ExportError
from prunnet.deploy.export import export
from prunnet.deploy.exported import ExportedNetwork, load_exported
from prunnet.deploy.pack.contents import read_contents
from prunnet.deploy.pack.reading import prefix_bytes
from prunnet.deploy.structured import structured_subnetwork
from prunnet.network.subnetwork_folder import load_subnetwork, save_subnetwork

__all__ = [
    "ExportError",
    "ExportedNetwork",
    "Timing",
    "bench",
    "export",
    "load_exported",
    "load_subnetwork",
    "prefix_bytes",
    "prune",
    "read_contents",
    "save_subnetwork",
    "structured_subnetwork",
]
