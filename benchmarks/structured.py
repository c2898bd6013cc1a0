"""What a structured ResNet-18 with 36 % of the parameters takes in onnxruntime, against the dense one.

    python benchmarks/structured.py

Target: at most 0.45 of the dense latency (224 px, one image). Measured as this project runs onnxruntime, and with
onnxruntime's own defaults: its threads then wait by spinning, so only one session may live at a time, or those of one
take the cores from the other. The unstructured subnetwork, whose zeros are multiplied like any other number, is shown
beside it.
"""

from statistics import median

import onnxruntime
import torch

import prunnet
from _timing import show
from prunnet._timing import medians
from prunnet.deploy.export.onnx_format import INPUT, serialise
from prunnet.deploy.export.tracing import trace
from prunnet.deploy.latency import runner
from prunnet.structured.removal import structured_subnetwork

CAPACITY = 0.36
ROUNDS, RUNS = 7, 21


def with_defaults(model: bytes, image: torch.Tensor) -> float:
    """Median seconds of one image in a session of its own that nothing was set in."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feed = {INPUT: image.numpy()}
    return medians({"run": lambda: session.run(None, feed)}, RUNS)["run"]


torch.manual_seed(0)
net = prunnet.convert(prunnet.create_backbone("resnet18"))
image = torch.randn(1, *net.preprocessing.input_size)
dense, removed = net.subnetwork(1.0), structured_subnetwork(net, CAPACITY)
runs = {
    "dense": runner(dense, "onnxruntime"),
    "unstructured 36 %": runner(net.subnetwork(CAPACITY), "onnxruntime"),
    "structured 36 %": runner(removed, "onnxruntime"),
}
seconds = medians({name: lambda run=run: run(image) for name, run in runs.items()}, rounds=31)
show(seconds)
del runs

models = {"dense, defaults": serialise(trace(dense), {}), "structured 36 %, defaults": serialise(trace(removed), {})}
# `medians` keeps all its tasks at hand; here one session must be gone before the next begins
rounds = [{name: with_defaults(model, image) for name, model in models.items()} for _ in range(ROUNDS)]
defaults = {name: median(one[name] for one in rounds) for name in models}
show(defaults)
ratio = defaults["structured 36 %, defaults"] / defaults["dense, defaults"]
print(f"unstructured_latency_over_dense: {seconds['unstructured 36 %'] / seconds['dense']:.3f}")
print(f"structured_latency_over_dense_with_defaults: {ratio:.3f}")
print(f"structured_latency_over_dense: {seconds['structured 36 %'] / seconds['dense']:.3f}")
