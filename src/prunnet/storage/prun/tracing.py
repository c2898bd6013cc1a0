"""From a backbone and its head to the program of a `.prun` file, by torch.export."""

import copy
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export.graph_signature import InputKind

from prunnet._torch_export import export, quiet
from prunnet.errors import ExportError
from prunnet.network.backbones import check_features
from prunnet.storage.prun.program import Operation

Result = int | list[int]  # of an operation with several results, as `unbind`


def trace_program(backbone: nn.Module, head: nn.Module, input_size: Sequence[int], tensors: Sequence[str]) -> list[Any]:
    """The operations from one preprocessed image to its embedding, inputs numbered by their place in `tensors`.

    An operation that the runtime lacks is refused by name.
    """
    network = copy.deepcopy(_Network(backbone, head)).cpu().float().eval().requires_grad_(False)
    exported = export(network, torch.zeros(1, *input_size))
    with quiet(), torch.no_grad():
        functional = exported.run_decompositions({})
    return _Tracer(_numbers(network, tensors)).trace(functional)


def _numbers(network: nn.Module, tensors: Sequence[str]) -> dict[str, int]:
    """The number of each tensor of the file, under every name that it has where it is shared."""
    known = {name: -1 - index for index, name in enumerate(tensors)}
    named = {
        **dict(network.named_parameters(remove_duplicate=False)),
        **dict(network.named_buffers(remove_duplicate=False)),
    }
    by_tensor = {id(tensor): known[name] for name, tensor in named.items() if name in known}
    return {name: by_tensor[id(tensor)] for name, tensor in named.items() if id(tensor) in by_tensor}


class _Network(nn.Module):
    """Names as in the file, and no normalisation: a runtime ends with it anyway."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        embedding: Tensor = self.head(check_features(self.backbone(images), self.backbone))
        return embedding


class _Tracer:
    def __init__(self, tensors: dict[str, int]) -> None:
        self.tensors = tensors
        self.operations: list[Operation] = []
        self.values: dict[fx.Node, Result] = {}

    def trace(self, exported: torch.export.ExportedProgram) -> list[Operation]:
        targets = {
            spec.arg.name: spec.target
            for spec in exported.graph_signature.input_specs
            if spec.kind != InputKind.USER_INPUT
        }
        for node in exported.graph.nodes:
            if node.op == "placeholder" and node.name not in targets:
                self.values[node] = 0
            elif node.op == "placeholder" and targets[node.name] in self.tensors:
                self.values[node] = self.tensors[str(targets[node.name])]
            elif node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op == "output":
                last = self.value(node.args[0][0])
                if last != len(self.operations):
                    raise ExportError("the embedding is not the last that the network computes; export to ONNX instead")
        return self.operations

    def value(self, node: Any) -> int:
        """The number of what `node` computes."""
        found = self.values.get(node)
        if not isinstance(found, int):
            raise ExportError(f"the runtime cannot take {node} as an input; export to ONNX instead (prunnet export)")
        return found

    def put(self, name: str, inputs: Collection[int], *numbers: float) -> int:
        self.operations.append((name, tuple(inputs), tuple(numbers)))
        return len(self.operations)

    def reshaped(self, value: int, before: Sequence[int], after: Sequence[int]) -> int:
        return value if tuple(before) == tuple(after) else self.put("reshape", [value], *after)

    def _call(self, node: fx.Node) -> Result:
        name = getattr(node.target, "__name__", str(node.target))
        handler = _HANDLERS.get(name.partition(".")[0])
        try:
            if handler is None:
                raise _UnsupportedError
            return handler(self, node)
        except _UnsupportedError as error:
            told = f" ({error})" if str(error) else ""
            raise ExportError(
                f"the runtime has no operation {name}{told}, which this backbone needs; "
                "export to ONNX instead (prunnet export)"
            ) from None


class _UnsupportedError(Exception):
    """An operation, or a way to use it, that the runtime lacks."""


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(int(side) for side in node.meta["val"].shape)


def _arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments by name, defaults filled in."""
    target: Any = node.target
    found: dict[str, Any] = {}
    for index, argument in enumerate(target._schema.arguments):
        if index < len(node.args):
            found[argument.name] = node.args[index]
        else:
            found[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return found


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise _UnsupportedError(what)


def _pair(value: Any) -> tuple[int, int]:
    sides = [value] if isinstance(value, int) else list(value)
    return (int(sides[0]), int(sides[-1]))


def _conv2d(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    vertical, horizontal = _padding(told, _shape(told["weight"]))
    value, around = tracer.value(told["input"]), [*vertical, *horizontal]
    if value > 0 and value == len(tracer.operations) and len(told["input"].users) == 1:
        name, inputs, numbers = tracer.operations[-1]
        if name == "pad":  # of zeros, as the convolution's own
            around = [int(a + b) for a, b in zip(around, numbers, strict=True)]
            tracer.operations.pop()
            value = inputs[0]
    tensors = [tracer.value(told[name]) for name in ("weight", "bias") if told[name] is not None]
    return tracer.put(
        "conv2d", [value, *tensors], *_pair(told["stride"]), *around, *_pair(told["dilation"]), told["groups"]
    )


def _padding(told: dict[str, Any], weight: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    if told["padding"] == "valid":
        return (0, 0), (0, 0)
    if told["padding"] == "same":
        total = [d * (k - 1) for d, k in zip(_pair(told["dilation"]), weight[2:], strict=True)]
        return (total[0] // 2, total[0] - total[0] // 2), (total[1] // 2, total[1] - total[1] // 2)
    height, width = _pair(told["padding"])
    return (height, height), (width, width)


def _batch_norm(tracer: _Tracer, node: fx.Node) -> list[int]:
    told = _arguments(node)
    names = ("input", "weight", "bias", "running_mean", "running_var")
    _need(all(told[name] is not None for name in names), "without weight and bias")
    return [tracer.put("batch_norm", [tracer.value(told[name]) for name in names], told["eps"])]


def _linear(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    return tracer.put("linear", [tracer.value(t) for t in (told["input"], told["weight"], told["bias"]) if t])


def _layer_norm(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    _need(len(told["normalized_shape"]) == 1, "over several dimensions")
    _need(told["weight"] is not None and told["bias"] is not None, "without weight and bias")
    return tracer.put("layer_norm", [tracer.value(told[n]) for n in ("input", "weight", "bias")], told["eps"])


def _hardtanh(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    _need((told["min_val"], told["max_val"]) == (0, 6), f"from {told['min_val']} to {told['max_val']}")
    return tracer.put("relu6", [tracer.value(told["self"])])


def _gelu(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    return tracer.put("gelu_tanh" if told["approximate"] == "tanh" else "gelu", [tracer.value(told["self"])])


def _leaky_relu(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    return tracer.put("leaky_relu", [tracer.value(told["self"])], told["negative_slope"])


def _same(name: str) -> Callable[[_Tracer, fx.Node], int]:
    return lambda tracer, node: tracer.put(name, [tracer.value(node.args[0])])


def _two(name: str) -> Callable[[_Tracer, fx.Node], int]:
    def put(tracer: _Tracer, node: fx.Node) -> int:
        _need(all(isinstance(part, fx.Node) for part in node.args[:2]), "with a number")
        _need(bool(node.kwargs.get("alpha", 1) == 1), "with a factor")
        return tracer.put(name, [tracer.value(part) for part in node.args[:2]])

    return put


def _max_pool2d(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    _need(_pair(told["dilation"]) == (1, 1) and not told["ceil_mode"], "with dilation or ceil_mode")
    return tracer.put("max_pool2d", [tracer.value(told["self"])], *_window(told))


def _avg_pool2d(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    fits = all((n + 2 * p - k) % s == 0 for n, k, s, p in zip(_shape(told["self"])[-2:], *_by_side(told), strict=True))
    _need(not told["ceil_mode"] or fits, "with ceil_mode")
    _need(told["divisor_override"] is None, "with a divisor")
    return tracer.put("avg_pool2d", [tracer.value(told["self"])], *_window(told), int(told["count_include_pad"]))


def _by_side(told: dict[str, Any]) -> list[tuple[int, int]]:
    kernel = _pair(told["kernel_size"])
    return [kernel, _pair(told["stride"]) if told["stride"] else kernel, _pair(told["padding"])]


def _window(told: dict[str, Any]) -> list[int]:
    return [side for pair in _by_side(told) for side in pair]


def _adaptive_avg_pool2d(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    value, before, after = tracer.value(told["self"]), _shape(told["self"])[2:], _pair(told["output_size"])
    if after == (1, 1):
        return tracer.put("mean", [value], 2, 3)
    _need(not any(n % k for n, k in zip(before, after, strict=True)), f"from {before} to {after} pixels")
    window = [n // k for n, k in zip(before, after, strict=True)]
    return value if window == [1, 1] else tracer.put("avg_pool2d", [value], *window, *window, 0, 0, 0)


def _mean(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    before = _shape(told["self"])
    dims = sorted(int(dim) % len(before) for dim in told["dim"] or range(len(before)))
    kept = [1 if index in dims else side for index, side in enumerate(before)]
    return tracer.reshaped(tracer.put("mean", [tracer.value(told["self"])], *dims), kept, _shape(node))


def _pad(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    left, right, top, bottom, *others = (*told["pad"], 0, 0)[: max(4, len(told["pad"]))]
    _need(told.get("mode", "constant") == "constant" and not told["value"] and not any(others), "other than zeros")
    _need(min(left, right, top, bottom) >= 0 and len(_shape(node)) == 4, "of other than the sides of an image")
    return tracer.put("pad", [tracer.value(told["self"])], top, bottom, left, right)


def _reshape(tracer: _Tracer, node: fx.Node) -> int:
    before: Any = node.args[0]
    return tracer.reshaped(tracer.value(before), _shape(before), _shape(node))


def _permute(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    rank = len(_shape(node))
    if "dims" in told:
        dims = [int(dim) % rank for dim in told["dims"]]
    else:
        dims = list(range(rank))
        first, second = int(told["dim0"]) % rank, int(told["dim1"]) % rank
        dims[first], dims[second] = dims[second], dims[first]
    return tracer.put("permute", [tracer.value(told["self"])], *dims)


def _sliced(tracer: _Tracer, node: Any, dim: int, start: int, length: int) -> int:
    whole = length == _shape(node)[dim]
    return tracer.value(node) if whole else tracer.put("slice", [tracer.value(node)], dim, start, length)


def _slice(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    _need(told["step"] == 1, "with a step")
    before, dim = _shape(told["self"]), int(told["dim"]) % len(_shape(node))
    start = min(max(0, (told["start"] or 0) + before[dim] * ((told["start"] or 0) < 0)), before[dim])
    return _sliced(tracer, told["self"], dim, start, _shape(node)[dim])


def _select(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    before = _shape(told["self"])
    return _one_of(tracer, told["self"], int(told["dim"]) % len(before), int(told["index"]))


def _unbind(tracer: _Tracer, node: fx.Node) -> list[int]:
    told = _arguments(node)
    before = _shape(told["self"])
    dim = int(told["dim"]) % len(before)
    return [_one_of(tracer, told["self"], dim, index) for index in range(before[dim])]


def _one_of(tracer: _Tracer, node: Any, dim: int, index: int) -> int:
    before = _shape(node)
    part = _sliced(tracer, node, dim, index % before[dim], 1)
    return tracer.put("reshape", [part], *(before[:dim] + before[dim + 1 :] or (1,)))


def _chunks(tracer: _Tracer, node: fx.Node) -> list[int]:
    told = _arguments(node)
    before: Any = told["self"]
    dim = int(told["dim"]) % len(_shape(before))
    lengths = [int(part.shape[dim]) for part in node.meta["val"]]
    return [_sliced(tracer, before, dim, sum(lengths[:index]), length) for index, length in enumerate(lengths)]


def _getitem(tracer: _Tracer, node: fx.Node) -> int:
    source: Any
    source, index = node.args[0], node.args[1]
    results = tracer.values[source]
    assert isinstance(results, list) and isinstance(index, int)
    return results[index]


def _cat(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    return tracer.put("concat", [tracer.value(part) for part in told["tensors"]], int(told["dim"]) % len(_shape(node)))


def _attention(tracer: _Tracer, node: fx.Node) -> int:
    told = _arguments(node)
    _need(told["attn_mask"] is None and not told["is_causal"] and not told.get("enable_gqa"), "with a mask")
    parts = [told[name] for name in ("query", "key", "value")]
    scale = told["scale"] or 1 / math.sqrt(_shape(parts[0])[-1])
    return tracer.put("attention", [tracer.value(part) for part in parts], scale)


def _expand(tracer: _Tracer, node: fx.Node) -> int:
    before: Any = node.args[0]
    _need(_shape(before) == _shape(node), f"from {_shape(before)} to {_shape(node)}")
    return tracer.value(before)


def _identity(tracer: _Tracer, node: fx.Node) -> int:
    return tracer.value(node.args[0])


_HANDLERS: dict[str, Callable[[_Tracer, fx.Node], Result]] = {
    "conv2d": _conv2d,
    "_native_batch_norm_legit_no_training": _batch_norm,
    "linear": _linear,
    "layer_norm": _layer_norm,
    "hardtanh": _hardtanh,
    "relu6": _same("relu6"),
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    **{name: _same(name) for name in ("relu", "silu", "hardswish", "hardsigmoid", "sigmoid", "tanh")},
    "add": _two("add"),
    "mul": _two("mul"),
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
    "adaptive_avg_pool2d": _adaptive_avg_pool2d,
    "mean": _mean,
    "pad": _pad,
    "constant_pad_nd": _pad,
    "permute": _permute,
    "transpose": _permute,
    **dict.fromkeys(("view", "reshape", "flatten", "squeeze", "unsqueeze"), _reshape),
    "slice": _slice,
    "select": _select,
    "unbind": _unbind,
    "chunk": _chunks,
    "split": _chunks,
    "split_with_sizes": _chunks,
    "getitem": _getitem,
    "cat": _cat,
    "scaled_dot_product_attention": _attention,
    "expand": _expand,
    **dict.fromkeys(("clone", "alias", "contiguous", "dropout", "detach", "detach_", "lift_fresh_copy"), _identity),
}
