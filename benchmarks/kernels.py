"""Time of every layer in the C kernels against the same layer inside onnxruntime's dense network, on one thread.

    python benchmarks/kernels.py [--network resnet18 ...] [--density 0.2 ...] [--rounds 15] [--layers] [--isa avx2]

Each round runs the whole dense network once in onnxruntime, which profiles itself, and then every convolution, linear
layer, pooling, layer norm and attention of the network once in C at every density, in the order of the network and
between two shared buffers. What counts is the median over rounds. A layer is planned as in use: sparse, dense or
depthwise by the kernels' own choice; `--dense NAME` keeps modules whose name contains NAME at density 1 (stems).
The last lines are the sums over all layers, onnxruntime = 1.
"""

import argparse
import json
import os
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import onnxruntime
import torch
from _kernels import ACTIVATIONS, ISAS, Convolution, Pool, aligned, at, build, pitch
from torch import nn

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

    def __init__(self, name: str, shape: str, runs: dict[float, Callable[[], object]], method: str) -> None:
        self.name, self.shape, self.runs, self.method = name, shape, runs, method
        self.seconds: dict[float, list[float]] = {density: [] for density in runs}
        self.dense: list[float] = []


class Maker:
    """Turns the modules of a network, met while it runs, into layers."""

    def __init__(self, library, densities: list[float], keep: list[str], activation: str) -> None:
        self.library, self.densities, self.keep, self.activation = library, densities, keep, activation
        self.buffers = aligned(1 << 23), aligned(1 << 23)
        for buffer in self.buffers:
            buffer[:] = np.random.default_rng(0).standard_normal(len(buffer), np.float32)
        self.layers: list[Layer] = []

    def add(self, name: str, shape: str, make: Callable[[float], tuple[Callable[[], object], str]]) -> None:
        made = {density: make(1.0 if any(k in name for k in self.keep) else density) for density in self.densities}
        methods = "/".join(dict.fromkeys(method for _, method in made.values()))
        self.layers.append(Layer(name, shape, {density: run for density, (run, _) in made.items()}, methods))

    def convolution(self, name: str, size: tuple[int, int, int], weight: torch.Tensor, **options) -> None:
        values = weight.detach().numpy()
        turn = len(self.layers) % 2
        depthwise = options.get("groups", 1) == values.shape[0] > 1

        def make(density: float) -> tuple[Callable[[], object], str]:
            kept = np.random.default_rng(0).random(values.shape) < (1.0 if depthwise else density)
            conv = Convolution(self.library, size, np.where(kept, values, 0).astype(np.float32), **options)
            conv.result = self.buffers[1 - turn]
            arguments = conv.plan, at(self.buffers[turn]), None, at(conv.result), at(conv.scratch), 0, conv.units
            return lambda: self.library.pk_conv_run(*arguments) or conv, conv.method

        shape = f"{values.shape[1]}→{values.shape[0]} {values.shape[2]}×{values.shape[3]}/{options.get('stride', (1, 1))[0]} at {size[1]}×{size[2]}"
        self.add(name, shape, make)

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


def node_medians(profile: str) -> tuple[list[float], float]:
    """Seconds of each convolution or matrix product with weights, in order; and of everything else."""
    times: dict[str, list[float]] = defaultdict(list)
    operator: dict[str, str] = {}
    for event in json.loads(Path(profile).read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[event["name"]].append(event["dur"] / 1e6)
            operator[event["name"]] = event["args"]["op_name"]
    weighted = [name for name in times if operator[name] in ("Conv", "FusedConv", "Gemm")]
    return [median(times[name]) for name in weighted], sum(median(times[n]) for n in times if n not in weighted)


def measure(network: str, library, arguments: argparse.Namespace) -> dict[str, float]:
    require_torchvision()
    import timm

    model = timm.create_model(NETWORKS[network], num_classes=0).eval()
    image = torch.randn(1, 3, SIZE, SIZE)
    maker = Maker(library, arguments.density, arguments.dense, activation_of(network))
    layers_of(model, maker, image)
    whole: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        run = session(timm.create_model(NETWORKS[network], num_classes=0, exportable=True).eval(), image, Path(folder))
        feed = {"x": image.numpy()}
        for _ in range(arguments.rounds):
            start = time.perf_counter()
            run.run(None, feed)
            whole.append(time.perf_counter() - start)
            for density in arguments.density:
                for layer in maker.layers:
                    start = time.perf_counter()
                    layer.runs[density]()
                    layer.seconds[density].append(time.perf_counter() - start)
        nodes, _ = node_medians(run.end_profiling())
    report(maker.layers, nodes, arguments)
    total = median(whole)
    return {
        f"{network}_{round(density * 100)}": sum(median(layer.seconds[density]) for layer in maker.layers) / total
        for density in arguments.density
    }


def report(layers: list[Layer], nodes: list[float], arguments: argparse.Namespace) -> None:
    if not arguments.layers:
        return
    weighted = [layer for layer in layers if layer.method]
    dense = dict(zip((id(layer) for layer in weighted), nodes, strict=False)) if len(weighted) == len(nodes) else {}
    print(f"{'layer':34} {'shape':28} {'method':16} {'ort µs':>8} " + "".join(f"{d:>14}" for d in arguments.density))
    for layer in layers:
        base = dense.get(id(layer))
        cells = []
        for density in arguments.density:
            mine = median(layer.seconds[density])
            cells.append(f"{mine * 1e6:8.0f}" + (f" {mine / base:5.2f}" if base else "      "))
        shown = f"{base * 1e6:8.0f}" if base else " " * 8
        print(f"{layer.name:34} {layer.shape:28} {layer.method:16} {shown} {''.join(cells)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--density", nargs="+", type=float, default=[0.2, 0.1, 0.05])
    parser.add_argument("--dense", nargs="*", default=["conv_stem"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--layers", action="store_true", help="print every layer")
    parser.add_argument("--isa", choices=ISAS, default="best")
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
