"""Time of every layer in the C kernels against the same layer inside onnxruntime's dense network, on one thread.

    python benchmarks/kernels.py [--network resnet18 ...] [--density 0.2 ...] [--rounds 15] [--layers] [--isa avx2]

Each round runs the whole dense network once in onnxruntime, which profiles itself, and then every convolution, linear
layer, pooling, layer norm and attention of the network once in C at every density, in the order of the network and
between two shared buffers. What counts is the median over rounds of the processor time of the one thread, so that
other work on the machine disturbs little; only onnxruntime's single layers are its own wall clock (minima). A layer is
planned
as in use: sparse, dense or depthwise by the kernels' own choice, unless `--method` forces one; `--dense NAME` keeps
modules whose name contains NAME at density 1 (stems). The last lines are sums over all layers, onnxruntime's whole = 1.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from ctypes import CDLL
from pathlib import Path
from statistics import median
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import onnxruntime
import torch
from torch import nn

from _kernels import ISAS, METHODS, Convolution, Pool, aligned, at, build, pitch
from prunnet._torchvision import require_torchvision

NETWORKS = {
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "mobilenetv2": "mobilenetv2_100",
    "vit_small": "vit_small_patch16_224",
}
SIZE = 224


class Layer:
    """One layer of the network: its name, its shape in words, and how to run it at each density."""

    def __init__(self, name: str, shape: str, runs: dict[float, Callable[[], object]], method: str, key: str) -> None:
        self.name, self.shape, self.runs, self.method, self.key = name, shape, runs, method, key
        self.seconds: dict[float, list[float]] = {density: [] for density in runs}


class Maker:
    """Turns the modules of a network, met while it runs, into layers."""

    def __init__(self, library: CDLL, arguments: argparse.Namespace, activation: str) -> None:
        self.library, self.densities, self.keep = library, arguments.density, arguments.dense
        self.method, self.activation = arguments.method, activation
        self.buffers = aligned(1 << 23), aligned(1 << 23)
        for buffer in self.buffers:
            buffer[:] = np.random.default_rng(0).standard_normal(len(buffer), np.float32)
        self.layers: list[Layer] = []

    def add(
        self, name: str, shape: str, make: Callable[[float], tuple[Callable[[], object], str]], key: str = ""
    ) -> None:
        made = {density: make(1.0 if any(k in name for k in self.keep) else density) for density in self.densities}
        methods = "/".join(dict.fromkeys(method for _, method in made.values()))
        self.layers.append(Layer(name, shape, {density: run for density, (run, _) in made.items()}, methods, key))

    def convolution(self, name: str, size: tuple[int, int, int], weight: torch.Tensor, **options: Any) -> None:
        values = weight.detach().numpy()
        turn = len(self.layers) % 2
        outputs, inputs, *window = values.shape
        depthwise = options.get("groups", 1) == outputs > 1
        options["method"] = "auto" if depthwise or any(k in name for k in self.keep) else self.method

        def make(density: float) -> tuple[Callable[[], object], str]:
            kept = np.random.default_rng(0).random(values.shape) < (1.0 if depthwise else density)
            conv = Convolution(self.library, size, np.where(kept, values, 0).astype(np.float32), **options)
            conv.result = self.buffers[1 - turn]
            arguments = conv.plan, at(self.buffers[turn]), None, at(conv.result), at(conv.scratch), 0, conv.units
            return lambda: self.library.pk_conv_run(*arguments) or conv, conv.method

        stride = options.get("stride", (1, 1))[0]
        shape = f"{inputs}→{outputs} {window[0]}×{window[1]}/{stride} at {size[1]}×{size[2]}"
        self.add(name, shape, make, key(list(values.shape), [] if size[1] == 1 else list(size[1:])))

    def visit(self, name: str, module: nn.Module, x: torch.Tensor) -> None:
        if isinstance(module, nn.Conv2d):
            activation = self.activation if "pwl" not in name and "downsample" not in name else "identity"
            self.convolution(
                *(name, (1, *x.shape[2:]), module.weight),
                **{
                    "stride": module.stride,
                    "padding": module.padding,
                    "groups": module.groups,
                    "activation": activation,
                },
            )
        elif isinstance(module, nn.Linear):
            activation = "gelu" if "fc1" in name else "identity"
            self.convolution(name, (1, 1, x.shape[1]), module.weight[:, :, None, None], activation=activation)
        else:
            self.other(name, module, x)

    def other(self, name: str, module: nn.Module, x: torch.Tensor) -> None:
        source, out = map(at, self.buffers)
        if isinstance(module, nn.MaxPool2d):
            h = x.shape[2]
            pool = Pool(1, h, h, h // 2, h // 2, 3, 3, 2, 2, 1, 1, 0)
            self.add(
                name,
                f"max pool at {h}×{h}",
                lambda _: (lambda: self.library.pk_max_pool(pool, source, out, 0, x.shape[1]), ""),
            )
        elif isinstance(module, nn.LayerNorm):
            ones = np.ones(x.shape[2], np.float32)
            arguments = x.shape[2], x.shape[1], at(ones), at(ones), 1e-6, source, source, 0, x.shape[1]
            self.add(name, "layer norm", lambda _: (lambda: self.library.pk_layer_norm(*arguments) or ones, ""))
        elif type(module).__name__ == "Attention":
            tokens, dim = x.shape[1], 64
            plane = x.shape[2] * pitch(tokens) * 4
            scratch = aligned(self.library.pk_attention_scratch_bytes(dim, tokens), np.uint8)
            arguments = (
                1,
                tokens,
                dim,
                0.125,
                source,
                source + plane,
                source + 2 * plane,
                out,
                at(scratch),
                0,
                x.shape[2] // dim,
            )
            self.add(name, "attention", lambda _: (lambda: self.library.pk_attention(*arguments) or scratch, ""))


def activation_of(network: str) -> str:
    return "relu6" if "mobilenet" in network else "relu" if "resnet" in network else "identity"


def layers_of(model: nn.Module, maker: Maker, image: torch.Tensor) -> None:
    hooks = [
        module.register_forward_pre_hook(lambda module, inputs, name=name: maker.visit(name, module, inputs[0]))
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear | nn.MaxPool2d | nn.LayerNorm)
        or type(module).__name__ == "Attention"
    ]
    with torch.inference_mode():
        model(image)
    for hook in hooks:
        hook.remove()


def session(model: nn.Module, image: torch.Tensor, folder: Path) -> onnxruntime.InferenceSession:
    path = folder / "dense.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (image,), str(path), dynamo=False, opset_version=17, input_names=["x"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling, options.profile_file_prefix = True, str(folder / "profile")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def node_times(profile: str) -> dict[str, list[float]]:
    """Seconds of each convolution or matrix product with weights, by shape, in the order of the network."""
    times: dict[str, list[float]] = defaultdict(list)
    shapes: dict[str, str] = {}
    for event in json.loads(Path(profile).read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            inputs = [next(iter(shape.values())) for shape in event["args"]["input_type_shape"]]
            times[event["name"]].append(event["dur"] / 1e6)
            if event["args"]["op_name"] in ("Conv", "FusedConv", "Gemm"):
                shapes[event["name"]] = key(sorted(inputs[1]), inputs[0][-2:] if len(inputs[0]) == 4 else [])
    result: dict[str, list[float]] = defaultdict(list)
    for name, shape in shapes.items():
        result[shape].append(min(times[name]))
    return result


def key(weight: list[int], size: list[int]) -> str:
    """What a layer here and a node there have in common."""
    return f"{[n for n in sorted(weight) if n > 1]} {list(size)}"


def measure(network: str, library: CDLL, arguments: argparse.Namespace) -> dict[str, float]:
    require_torchvision()
    import timm

    model = timm.create_model(NETWORKS[network], num_classes=0).eval()
    image = torch.randn(1, 3, SIZE, SIZE)
    maker = Maker(library, arguments, activation_of(network))
    layers_of(model, maker, image)
    whole: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run = session(timm.create_model(NETWORKS[network], num_classes=0, exportable=True).eval(), image, Path(folder))
        feed = {"x": image.numpy()}
        for _ in range(arguments.rounds):
            start = time.thread_time()
            run.run(None, feed)
            whole.append(time.thread_time() - start)
            for density in arguments.density:
                for layer in maker.layers:
                    start = time.thread_time()
                    layer.runs[density]()
                    layer.seconds[density].append(time.thread_time() - start)
        nodes = node_times(run.end_profiling())
    if arguments.layers:
        report(maker.layers, nodes, arguments.density)
    total = median(whole)
    return {
        f"{network}_{round(density * 100)}": sum(median(layer.seconds[density]) for layer in maker.layers) / total
        for density in arguments.density
    }


def report(layers: list[Layer], nodes: dict[str, list[float]], densities: list[float]) -> None:
    print(f"{'layer':24} {'shape':28} {'method':16} {'ort µs':>8} " + "".join(f"{d:>14}" for d in densities))
    for layer in layers:
        dense = nodes[layer.key].pop(0) if nodes.get(layer.key) else None
        cells = []
        for density in densities:
            mine = median(layer.seconds[density])
            cells.append(f"{mine * 1e6:8.0f}" + (f" {mine / dense:5.2f}" if dense else "      "))
        shown = f"{dense * 1e6:8.0f}" if dense else " " * 8
        print(f"{layer.name:24} {layer.shape:28} {layer.method:16} {shown} {''.join(cells)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--density", nargs="+", type=float, default=[0.2, 0.1, 0.05])
    parser.add_argument("--dense", nargs="*", default=["conv_stem"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--layers", action="store_true", help="print every layer")
    parser.add_argument("--isa", choices=ISAS, default="best")
    parser.add_argument("--method", choices=METHODS, default="auto")
    parser.add_argument("--cc")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder), cc=arguments.cc)
        library.pk_select(ISAS.index(arguments.isa))
        for network in arguments.network:
            for name, ratio in measure(network, library, arguments).items():
                print(f"{name}: {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
