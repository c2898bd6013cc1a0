"""What a structured ResNet-18 with 36 % of the parameters takes in onnxruntime, against the dense one.

    python benchmarks/structured.py

Target: at most 0.45 of the dense latency (224 px, one image), with onnxruntime's threads not spinning, which is not its
default; on shared cores the default misses it (docs/speed.md). The unstructured one, whose zeros onnxruntime multiplies
like any other number, is shown beside it.
"""

import torch

import prunnet
from _timing import show
from prunnet.deploy.latency import medians, runner
from prunnet.deploy.structured import structured_subnetwork

CAPACITY = 0.36

torch.manual_seed(0)
net = prunnet.convert(prunnet.create_backbone("resnet18"))
image = torch.randn(1, *net.preprocessing.input_size)
runs = {
    "dense": runner(net.subnetwork(1.0), "onnxruntime"),
    "unstructured 36 %": runner(net.subnetwork(CAPACITY), "onnxruntime"),
    "structured 36 %": runner(structured_subnetwork(net, CAPACITY), "onnxruntime"),
}
seconds = medians({name: lambda run=run: run(image) for name, run in runs.items()}, rounds=31)
show(seconds)
print(f"unstructured_latency_over_dense: {seconds['unstructured 36 %'] / seconds['dense']:.3f}")
print(f"structured_latency_over_dense: {seconds['structured 36 %'] / seconds['dense']:.3f}")
