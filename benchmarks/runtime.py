"""What subnetworks take in prunnet's own runtime, against the same network dense in onnxruntime.

    python benchmarks/runtime.py                            # all, some minutes
    python benchmarks/runtime.py resnet18 mobilenetv2_100   # some
    python benchmarks/runtime.py mobilenetv2_100=weights.safetensors

One image, one thread, all of a network taking turns in one process; ratios to dense onnxruntime come last:
`resnet18_20` where every layer keeps the same share (but stems of mobile networks and depthwise convolutions, which are
whole), `resnet18_protected_20` with the one that is the default from scratch, which keeps more where planes are
large. With a file of weights there is `resnet18_measured_20` too, the default for them; otherwise weights are
untrained.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnxruntime
import torch

import prunnet
from _networks import network
from _timing import show
from prunnet._timing import medians
from prunnet.deploy.export.onnx_format import INPUT, serialise
from prunnet.deploy.export.tracing import trace
from prunnet.network.allocation import AllocationName

CAPACITIES = (0.4, 0.2, 0.1, 0.05)
NETWORKS = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "mobilenetv2_100": "mobilenetv2",
    "vit_small_patch16_224": "vit_small",
    "tf_efficientnet_lite0": "efficientnet_lite0",
    "resnext50_32x4d": "resnext50",
}
ROUNDS = 11


def measure(wanted: str, folder: Path) -> dict[str, float]:
    """Ratios to dense onnxruntime."""
    backbone, _, file_of_weights = wanted.partition("=")
    weights = Path(file_of_weights) if file_of_weights else None
    name, tasks, keys = NETWORKS[backbone], {}, []
    allocations: tuple[AllocationName, ...] = ("uniform", "protected", "measured")[: 3 if weights else 2]
    nets = {allocation: network(backbone, CAPACITIES, allocation, weights) for allocation in allocations}
    image = torch.randn(1, *nets["uniform"].preprocessing.input_size)
    tasks[f"{name} dense in onnxruntime"] = dense_task(nets["uniform"], image)
    for allocation, net in nets.items():
        file = prunnet.pack(net, folder / f"{backbone}-{allocation}.prun", grid=CAPACITIES, runtime=True)
        for capacity in CAPACITIES:
            began = time.perf_counter()
            runtime = prunnet.Runtime(file, capacity)
            loaded, share = time.perf_counter() - began, prunnet.cost(net, capacity).macs / prunnet.cost(net, 1).macs
            label = f"{name} {allocation} {capacity:.0%}"
            print(f"{label}: {share:.0%} of the multiplications, {runtime.bytes:,} bytes, loaded in {loaded:.2f} s")
            tasks[label] = partial(runtime, image)
            keys.append(f"{name}_{'' if allocation == 'uniform' else f'{allocation}_'}{100 * capacity:.0f}")
    seconds = medians(tasks, ROUNDS)
    show(seconds)
    dense, *others = seconds.values()
    return {key: value / dense for key, value in zip(keys, others, strict=True)}


def dense_task(net: prunnet.PrunableNetwork, image: torch.Tensor) -> Callable[[], object]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = serialise(trace(net.subnetwork(1.0)), {})
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return partial(session.run, None, {INPUT: image.numpy()})


def main() -> None:
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or list(NETWORKS)
    with tempfile.TemporaryDirectory() as folder:
        ratios = {key: ratio for name in wanted for key, ratio in measure(name, Path(folder)).items()}
    for key, ratio in ratios.items():
        print(f"{key}: {ratio:.3f}")


if __name__ == "__main__":
    main()
