"""The C kernels of the runtime as numpy functions: for their tests and measurements alone."""

import ctypes
import shutil
import subprocess
from ctypes import POINTER, Structure, byref, c_float, c_int32, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
SOURCES = Path(__file__).parents[1] / "src" / "prunnet" / "runtime" / "c"
FLAGS = ["-O3", "-std=c11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]
ACTIVATIONS = [
    *("identity", "relu", "relu6", "silu", "gelu", "gelu_tanh", "hardswish", "sigmoid", "hardsigmoid", "tanh"),
]
METHODS = ["auto", "sparse", "dense", "depthwise"]
ISAS = ["best", "base", "avx2", "avx512"]


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def build(folder: Path, *flags: str, cc: str | None = None) -> ctypes.CDLL:
    """The kernels as a library in `folder`."""
    library = folder / "kernels.so"
    sources = sorted(str(path) for path in SOURCES.glob("kernels*.c"))
    subprocess.run([cc or compiler() or "cc", *FLAGS, *flags, "-shared", "-fPIC", "-o", library, *sources], check=True)
    return declare(ctypes.CDLL(str(library)))


class Conv(Structure):
    """`pk_conv`."""

    _fields_ = [
        (name, c_int32)
        for name in (
            *("images", "in_channels", "in_h", "in_w", "out_channels", "out_h", "out_w", "kernel_h", "kernel_w"),
            *("stride_h", "stride_w", "pad_top", "pad_left", "groups", "activation", "method", "parts"),
        )
    ]


class Pool(Structure):
    """`pk_pool`."""

    _fields_ = [
        (name, c_int32)
        for name in (
            *("images", "in_h", "in_w", "out_h", "out_w", "kernel_h", "kernel_w", "stride_h", "stride_w"),
            *("pad_top", "pad_left", "count_pad"),
        )
    ]


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Give every function its types."""
    i, p, f = c_int32, c_void_p, c_float
    conv, pool = POINTER(Conv), POINTER(Pool)
    signatures: dict[str, tuple[object, list[object]]] = {
        "select": (i, [i]),
        "conv_plan_bytes": (c_size_t, [conv, c_size_t]),
        "conv_scratch_bytes": (c_size_t, [conv, c_size_t]),
        "conv_plan": (p, [conv, p, p, p, p, p]),
        "conv_method": (i, [p]),
        "conv_units": (i, [p]),
        "conv_run": (None, [p, p, p, p, p, i, i]),
        "pair_parts": (i, [conv]),
        "conv_parts": (i, [p]),
        "pair_scratch_bytes": (c_size_t, [p, p]),
        "pair_run": (None, [p, p, p, p, p, i, i]),
        "max_pool": (None, [pool, p, p, i, i]),
        "average_pool": (None, [pool, p, p, i, i]),
        "global_average": (None, [i, i, p, p, i, i]),
        "activate": (None, [i, i, p, p, i, i]),
        "add": (None, [i, i, p, p, p, i, i]),
        "multiply": (None, [i, p, p, p, i, i]),
        "affine": (None, [i, p, p, p, p, i, i]),
        "gate": (None, [i, i, i, p, p, p, i, i]),
        "layer_norm": (None, [i, i, p, p, f, p, p, i, i]),
        "tokens": (None, [i, i, i, i, p, p, p, p]),
        "attention_scratch_bytes": (c_size_t, [i, i]),
        "attention": (None, [i, i, i, f, p, p, p, p, p, i, i]),
        "rows": (None, [i, i, i, p, p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, f"pk_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def pitch(pixels: int) -> int:
    """Floats from plane to plane."""
    return (-(-pixels // 16) | 1) * 16


def aligned(count: int, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[np.generic]:
    """Zeros at an address that is a multiple of 64."""
    size = np.dtype(dtype).itemsize
    raw = np.zeros(count * size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * size].view(dtype)


def planes(x: Floats) -> Floats:
    """From (images, channels, height, width) to the layout of `kernels.h`."""
    n, c, h, w = x.shape
    result = aligned(c * pitch(n * h * w)).reshape(c, -1)
    result[:, : n * h * w] = x.transpose(1, 0, 2, 3).reshape(c, -1)
    return result


def pixels(y: Floats, n: int, h: int, w: int) -> Floats:
    """Back from planes."""
    return np.ascontiguousarray(y[:, : n * h * w].reshape(-1, n, h, w).transpose(1, 0, 2, 3))


def at(array: npt.NDArray[np.generic] | None) -> int | None:
    """The address, or NULL."""
    return None if array is None else array.ctypes.data


class Convolution:
    """One planned convolution. Zeros of `weight` are the pruned connections."""

    def __init__(
        self,
        library: ctypes.CDLL,
        size: tuple[int, int, int],
        weight: Floats,
        bias: Floats | None = None,
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        groups: int = 1,
        activation: str = "identity",
        method: str = "auto",
        parts: int = 0,
    ) -> None:
        n, h, w = size
        outputs, inputs, kh, kw = weight.shape
        out_h, out_w = (h + 2 * padding[0] - kh) // stride[0] + 1, (w + 2 * padding[1] - kw) // stride[1] + 1
        self.library, self.out = library, (n, out_h, out_w)
        self.conv = Conv(
            *(n, inputs * groups, h, w, outputs, out_h, out_w, kh, kw, *stride, *padding, groups),
            *(ACTIVATIONS.index(activation), METHODS.index(method), parts),
        )
        flat = weight.reshape(outputs, -1)
        kept = flat != 0
        first = np.concatenate([[0], kept.sum(1).cumsum()]).astype(np.uint32)
        position = np.nonzero(kept)[1].astype(np.uint32)
        value = np.ascontiguousarray(flat[kept], np.float32)
        size_bytes = library.pk_conv_plan_bytes(byref(self.conv), len(value))
        self.memory = aligned(size_bytes, np.uint8)
        self.scratch = aligned(library.pk_conv_scratch_bytes(byref(self.conv), len(value)), np.uint8)
        self.plan = library.pk_conv_plan(
            byref(self.conv), at(first), at(position), at(value), at(bias), at(self.memory)
        )
        assert self.plan, "no plan"
        self.units = library.pk_conv_units(self.plan)
        self.method = METHODS[library.pk_conv_method(self.plan)]
        self.result = aligned(outputs * pitch(n * out_h * out_w)).reshape(outputs, -1)

    def run(self, x: Floats, residual: Floats | None = None, units: tuple[int, int] | None = None) -> Floats:
        """Planes in, planes out (the same memory every time)."""
        begin, end = units or (0, self.units)
        self.library.pk_conv_run(self.plan, at(x), at(residual), at(self.result), at(self.scratch), begin, end)
        return self.result
