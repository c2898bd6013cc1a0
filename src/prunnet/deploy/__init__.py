"""Deployment: from a family and a device's budget to a file that runs there, and the truth about its speed.

small = prunnet.prune(net, max_macs="200M", loader=images)      # or capacity=, max_bytes=, max_latency="8ms"
prunnet.export(small, "small.onnx")                             # checked in onnxruntime before it gets its name
prunnet.bench(net)                                              # what each capacity takes, here, in each runtime
"""

from prunnet.deploy.pruning import prune
from prunnet.deploy.timings import Timing, bench

__all__ = ["Timing", "bench", "prune"]
