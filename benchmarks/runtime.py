"""What subnetworks take in prunnet's own runtime, against the same network dense in onnxruntime.

    python benchmarks/runtime.py                            # all, some minutes
    python benchmarks/runtime.py resnet18 mobilenetv2_100   # some

One image, one thread, all of a network taking turns in one process; ratios to dense onnxruntime come last. Weights are
untrained, batch norm is adapted; of MobileNetV2 the stem and the depthwise convolutions, 3 % of the connections, are
kept whole. `load` is the time from the bytes of a file to a network that is ready.
"""

import sys
import tempfile
import time
from pathlib import Path

import onnxruntime
import torch
from torch import nn

import prunnet
from _timing import show
from prunnet._timing import medians
from prunnet.deploy.export.onnx_format import INPUT, serialise
from prunnet.deploy.export.tracing import trace

CAPACITIES = (0.05, 0.1, 0.2, 0.4)
NETWORKS = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "mobilenetv2_100": "mobilenetv2",
    "vit_small_patch16_224": "vit_small",
    "tf_efficientnet_lite0": "efficientnet_lite0",
    "resnext50_32x4d": "resnext50",
}
ROUNDS = 11


def prunable(name: str, layer: nn.Module) -> bool:
    """All but stem and depthwise convolutions where there are any."""
    return not (isinstance(layer, nn.Conv2d) and (layer.groups == layer.in_channels or name.endswith("conv_stem")))


def measure(backbone: str, folder: Path) -> dict[str, float]:
    """Ratios to dense onnxruntime, by capacity in percent."""
    torch.manual_seed(0)
    net = prunnet.convert(prunnet.create_backbone(backbone), prunable=prunable)
    prunnet.adapt_batchnorm(net, [torch.randn(2, *net.preprocessing.input_size)], capacities=CAPACITIES)
    file = prunnet.pack(net, folder / f"{backbone}.prun", grid=CAPACITIES, runtime=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = serialise(trace(net.subnetwork(1.0)), {})
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    image = torch.randn(1, *net.preprocessing.input_size)
    feed = {INPUT: image.numpy()}
    tasks = {f"{backbone} onnxruntime, dense": lambda: session.run(None, feed)}
    for capacity in CAPACITIES:
        began = time.perf_counter()
        runtime = prunnet.Runtime(file, capacity)
        print(f"{backbone} {capacity:.0%}: load {time.perf_counter() - began:.2f} s, {runtime.bytes:,} bytes")
        tasks[f"{backbone} prunnet, {capacity:.0%}"] = lambda runtime=runtime: runtime(image)
    seconds = medians(tasks, ROUNDS)
    show(seconds)
    dense, *others = seconds.values()
    return {f"{100 * c:.0f}": value / dense for c, value in zip(CAPACITIES, others, strict=True)}


def main() -> None:
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or list(NETWORKS)
    with tempfile.TemporaryDirectory() as folder:
        ratios = {NETWORKS[name]: measure(name, Path(folder)) for name in wanted}
    for name, by_capacity in ratios.items():
        for percent, ratio in reversed(by_capacity.items()):
            print(f"{name}_{percent}: {ratio:.3f}")


if __name__ == "__main__":
    main()
