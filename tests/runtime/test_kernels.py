"""The C kernels give what torch gives, for shapes of real networks and odd ones, on every instruction set here."""

import ctypes
from ctypes import byref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchmarks._kernels import (
    ACTIVATIONS,
    ISAS,
    Convolution,
    Floats,
    Pool,
    aligned,
    at,
    build,
    compiler,
    pitch,
    pixels,
    planes,
)
from torch import Tensor

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler")

TORCH = {
    "identity": lambda x: x,
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardswish": F.hardswish,
    "sigmoid": torch.sigmoid,
    "hardsigmoid": F.hardsigmoid,
    "tanh": torch.tanh,
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("kernels"))


@pytest.fixture(params=["base", "avx2", "avx512"])
def kernels(library: ctypes.CDLL, request: pytest.FixtureRequest) -> ctypes.CDLL:
    if library.pk_select(ISAS.index(request.param)) != ISAS.index(request.param):
        pytest.skip(f"this processor has no {request.param}")
    return library


def numbers(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def pruned(*shape: int, density: float, seed: int = 1) -> Floats:
    generator = np.random.default_rng(seed)
    return numbers(*shape, seed=seed) * (generator.random(shape) < density)


def close(found: Floats, expected: Tensor, scale: float = 1.0) -> None:
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=2e-5 * scale)


# images, in, height, width, out, kernel, stride, padding, groups
SHAPES = [
    (1, 3, 32, 32, 8, (7, 7), (2, 2), (3, 3), 1),
    (1, 8, 56, 56, 8, (3, 3), (1, 1), (1, 1), 1),
    (1, 20, 28, 28, 12, (3, 3), (1, 1), (1, 1), 1),
    (1, 20, 28, 28, 12, (3, 3), (2, 2), (1, 1), 1),
    (1, 30, 14, 14, 17, (3, 3), (1, 1), (1, 1), 1),
    (1, 70, 7, 7, 33, (3, 3), (1, 1), (1, 1), 1),
    (2, 70, 7, 7, 33, (3, 3), (1, 1), (1, 1), 1),
    (3, 5, 9, 11, 7, (5, 3), (2, 1), (2, 0), 1),
    (1, 1, 1, 1, 1, (1, 1), (1, 1), (0, 0), 1),
    (1, 3, 32, 32, 10, (16, 16), (16, 16), (0, 0), 1),
    (1, 64, 56, 56, 24, (1, 1), (2, 2), (0, 0), 1),
    (2, 6, 5, 37, 9, (1, 1), (1, 1), (0, 0), 1),
    (1, 300, 7, 7, 40, (1, 1), (1, 1), (0, 0), 1),
    (1, 96, 1, 197, 50, (1, 1), (1, 1), (0, 0), 1),
    (8, 96, 1, 1, 50, (1, 1), (1, 1), (0, 0), 1),
    (1, 16, 14, 14, 32, (3, 3), (1, 1), (1, 1), 4),
    (1, 16, 15, 13, 24, (3, 3), (2, 2), (1, 1), 8),
    (1, 12, 9, 9, 18, (1, 1), (1, 1), (0, 0), 3),
    (2, 4, 3, 3, 5, (3, 3), (1, 1), (2, 2), 1),
    (1, 2, 130, 70, 3, (3, 3), (1, 1), (1, 1), 1),
]
DEPTHWISE = [
    (1, 10, 28, 28, 10, (3, 3), (1, 1), (1, 1), 10),
    (1, 10, 28, 28, 10, (3, 3), (2, 2), (1, 1), 10),
    (2, 5, 7, 7, 5, (3, 3), (1, 1), (1, 1), 5),
    (1, 5, 14, 14, 5, (5, 5), (1, 1), (2, 2), 5),
    (2, 3, 15, 19, 3, (5, 5), (2, 2), (2, 2), 3),
    (1, 3, 112, 112, 3, (3, 3), (2, 2), (1, 1), 3),
    (1, 3, 33, 112, 3, (3, 3), (1, 1), (1, 1), 3),
    (1, 4, 14, 14, 4, (7, 7), (1, 1), (3, 3), 4),
    (1, 4, 1, 1, 4, (3, 3), (1, 1), (1, 1), 4),
    (1, 4, 6, 5, 8, (3, 3), (1, 1), (1, 1), 4),
    (1, 4, 6, 5, 4, (2, 3), (1, 2), (0, 1), 4),
]
METHODS = ["sparse", "dense"]
CASES = [(shape, method) for shape in SHAPES for method in METHODS] + [
    (shape, method) for shape in DEPTHWISE for method in ("depthwise", "sparse", "dense")
]


def convolved(
    kernels: ctypes.CDLL, shape: tuple, method: str, density: float, activation: str, residual: bool, **options
):  # type: ignore[no-untyped-def,type-arg]
    n, c, h, w, o, kernel, stride, padding, groups = shape
    x, weight, bias = numbers(n, c, h, w), pruned(o, c // groups, *kernel, density=density), numbers(o, seed=3)
    conv = Convolution(kernels, (n, h, w), weight, bias, stride, padding, groups, activation, method, **options)
    expected = F.conv2d(torch.tensor(x), torch.tensor(weight), torch.tensor(bias), stride, padding, groups=groups)
    other = numbers(*expected.shape, seed=4) if residual else None
    if other is not None:
        expected = expected + torch.tensor(other)
    return conv, x, other, TORCH[activation](expected)


@pytest.mark.parametrize(("shape", "method"), CASES, ids=str)
def test_convolution(kernels: ctypes.CDLL, shape: tuple, method: str) -> None:  # type: ignore[type-arg]
    for density, activation, residual in [
        (0.3, "relu", False),
        (0.05, "gelu", True),
        (1.0, "identity", True),
        (0.0, "relu6", True),
    ]:
        conv, x, other, expected = convolved(kernels, shape, method, density, activation, residual)
        assert conv.method == method
        found = conv.run(planes(x), None if other is None else planes(other))
        close(pixels(found, *conv.out), expected, scale=np.sqrt(x.shape[1] * shape[5][0] * shape[5][1]))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [SHAPES[i] for i in (1, 6, 12, 15)], ids=str)
def test_units_in_any_division_give_the_same(kernels: ctypes.CDLL, shape: tuple, method: str) -> None:  # type: ignore[type-arg]
    conv, x, _, expected = convolved(kernels, shape, method, 0.2, "relu", False, parts=3)
    source = planes(x)
    for unit in reversed(range(conv.units)):
        conv.run(source, units=(unit, unit + 1))
    close(pixels(conv.result, *conv.out), expected, scale=np.sqrt(x.shape[1] * 9))


@pytest.mark.parametrize(("images", "channels", "side", "stride"), [(1, 40, 56, 2), (2, 21, 7, 1), (1, 3, 9, 1)])
def test_expansion_and_depthwise_together(
    kernels: ctypes.CDLL, images: int, channels: int, side: int, stride: int
) -> None:
    x, weight = numbers(images, 5, side, side), pruned(channels, 5, 1, 1, density=0.4)
    deep, bias = numbers(channels, 1, 3, 3, seed=5), numbers(channels, seed=6)
    options = {"bias": bias, "activation": "relu6"}
    size = (images, side, side)
    parts = kernels.pk_pair_parts(byref(Convolution(kernels, size, weight).conv))
    first = Convolution(kernels, size, weight, method="sparse", parts=parts, **options)
    second = Convolution(kernels, size, deep, None, (stride, stride), (1, 1), channels, "silu")
    scratch = aligned(kernels.pk_pair_scratch_bytes(first.plan, second.plan), np.uint8)
    source = planes(x)
    for part in range(kernels.pk_conv_parts(first.plan)):
        arguments = first.plan, second.plan, at(source), at(second.result), at(scratch), part, part + 1
        kernels.pk_pair_run(*arguments)
    between = F.relu6(F.conv2d(torch.tensor(x), torch.tensor(weight), torch.tensor(bias)))
    expected = F.silu(F.conv2d(between, torch.tensor(deep), None, stride, 1, groups=channels))
    close(pixels(second.result, *second.out), expected, scale=3)
    assert kernels.pk_pair_scratch_bytes(second.plan, first.plan) == 0


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activation(kernels: ctypes.CDLL, activation: str) -> None:
    x = np.concatenate([np.linspace(-100, 100, 4001), np.linspace(-1, 1, 4001)], dtype=np.float32).reshape(1, 1, 1, -1)
    source, out = planes(x), aligned(pitch(x.size)).reshape(1, -1)
    kernels.pk_activate(x.size, ACTIVATIONS.index(activation), at(source), at(out), 0, 1)
    expected = TORCH[activation](torch.tensor(x, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(out[:, : x.size].ravel(), expected.ravel(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2)])
@pytest.mark.parametrize("size", [(2, 3, 17, 20), (1, 2, 7, 7), (1, 1, 112, 112)])
def test_pooling(kernels: ctypes.CDLL, size: tuple[int, int, int, int], kernel: int, stride: int, padding: int) -> None:
    x, (n, c, h, w) = numbers(*size), size
    source = planes(x)
    out_h, out_w = (h + 2 * padding - kernel) // stride + 1, (w + 2 * padding - kernel) // stride + 1
    out = aligned(c * pitch(n * out_h * out_w)).reshape(c, -1)
    for count in (0, 1):
        pool = Pool(n, h, w, out_h, out_w, kernel, kernel, stride, stride, padding, padding, count)
        kernels.pk_average_pool(byref(pool), at(source), at(out), 0, c)
        expected = F.avg_pool2d(torch.tensor(x), kernel, stride, padding, count_include_pad=bool(count))
        close(pixels(out, n, out_h, out_w), expected)
    kernels.pk_max_pool(byref(pool), at(source), at(out), 0, c)
    close(pixels(out, n, out_h, out_w), F.max_pool2d(torch.tensor(x), kernel, stride, padding))


@pytest.mark.parametrize("size", [(2, 5, 7, 7), (1, 3, 1, 1), (3, 2, 14, 15)])
def test_global_average_and_gate(kernels: ctypes.CDLL, size: tuple[int, int, int, int]) -> None:
    x, (n, c, h, w) = numbers(*size), size
    source, mean = planes(x), aligned(c * pitch(n)).reshape(c, -1)
    kernels.pk_global_average(n, h * w, at(source), at(mean), 0, c)
    average = torch.tensor(x).mean((2, 3), keepdim=True)
    close(pixels(mean, n, 1, 1), average)
    out = aligned(source.size).reshape(source.shape)
    kernels.pk_gate(n, h * w, ACTIVATIONS.index("silu"), at(source), at(mean), at(out), 0, c)
    close(pixels(out, n, h, w), F.silu(torch.tensor(x) * average))


def test_sums_products_and_scales(kernels: ctypes.CDLL) -> None:
    a, b, scale, shift = numbers(2, 5, 3, 7), numbers(2, 5, 3, 7, seed=1), numbers(5), numbers(5, seed=1)
    left, right = planes(a), planes(b)
    out = aligned(left.size).reshape(left.shape)
    kernels.pk_add(42, ACTIVATIONS.index("relu"), at(left), at(right), at(out), 0, 5)
    close(pixels(out, 2, 3, 7), F.relu(torch.tensor(a + b)))
    kernels.pk_multiply(42, at(left), at(right), at(out), 0, 5)
    close(pixels(out, 2, 3, 7), torch.tensor(a * b))
    kernels.pk_affine(42, at(scale), at(shift), at(left), at(out), 0, 5)
    close(pixels(out, 2, 3, 7), torch.tensor(a * scale[:, None, None] + shift[:, None, None]))


@pytest.mark.parametrize(("channels", "count"), [(384, 197), (7, 3), (96, 49)])
def test_layer_norm(kernels: ctypes.CDLL, channels: int, count: int) -> None:
    x, scale, shift = numbers(1, channels, 1, count) * 3 + 5, numbers(channels), numbers(channels, seed=1)
    source = planes(x)
    kernels.pk_layer_norm(channels, count, at(scale), at(shift), 1e-6, at(source), at(source), 0, count)
    rows = torch.tensor(x[0, :, 0].T)
    expected = F.layer_norm(rows, (channels,), torch.tensor(scale), torch.tensor(shift), 1e-6)
    close(source[:, :count].T, expected, scale=5)


@pytest.mark.parametrize(("images", "heads", "dim", "count"), [(1, 6, 64, 197), (3, 2, 7, 5), (2, 1, 32, 50)])
def test_attention(kernels: ctypes.CDLL, images: int, heads: int, dim: int, count: int) -> None:
    q, k, v = (numbers(images, heads * dim, 1, count, seed=seed) for seed in range(3))
    out = aligned(heads * dim * pitch(images * count)).reshape(heads * dim, -1)
    scratch = aligned(kernels.pk_attention_scratch_bytes(dim, count), np.uint8)
    inputs = [planes(x) for x in (q, k, v)]
    for head in range(heads):
        kernels.pk_attention(
            *(images, count, dim, dim**-0.5, *map(at, inputs), at(out), at(scratch), head, head + 1),
        )
    split = [torch.tensor(x).reshape(images, heads, dim, count).transpose(2, 3) for x in (q, k, v)]
    expected = F.scaled_dot_product_attention(*split).transpose(2, 3).reshape(images, heads * dim, 1, count)
    close(pixels(out, images, 1, count), expected)


def test_tokens_and_rows(kernels: ctypes.CDLL) -> None:
    x, first, position = numbers(2, 6, 3, 4), numbers(6, 1), numbers(6, 13)
    source, out = planes(x), aligned(6 * pitch(26)).reshape(6, -1)
    kernels.pk_tokens(2, 6, 12, 1, at(first), at(position), at(source), at(out))
    expected = np.concatenate([np.broadcast_to(first, (2, 6, 1)), x.reshape(2, 6, 12)], 2) + position
    np.testing.assert_array_equal(pixels(out, 2, 1, 13)[:, :, 0], expected)
    rows = np.zeros((26, 6), np.float32)
    kernels.pk_rows(6, 26, 1, at(out), at(rows))
    close(rows, F.normalize(torch.tensor(expected.transpose(0, 2, 1).reshape(26, 6))))


@pytest.mark.parametrize(
    ("first", "position"), [([0, 2, 1], [0, 1]), ([1, 1, 2], [0, 1]), ([0, 2, 2], [1, 1]), ([0, 1, 2], [0, 9])]
)
def test_connections_that_cannot_be_are_refused(kernels: ctypes.CDLL, first: list[int], position: list[int]) -> None:
    conv = Convolution(kernels, (1, 3, 3), numbers(2, 9, 1, 1), method="sparse")
    arrays = np.array(first, np.uint32), np.array(position, np.uint32), np.ones(2, np.float32)
    assert kernels.pk_conv_plan(byref(conv.conv), *map(at, arrays), None, at(conv.memory)) is None


def test_shapes_that_cannot_be_are_refused(kernels: ctypes.CDLL) -> None:
    for name, value in [
        ("images", 0),
        ("groups", 2),
        ("in_w", 1 << 30),
        ("out_channels", 1 << 24),
        ("out_h", 9999),
        ("activation", 99),
    ]:
        conv = Convolution(kernels, (1, 3, 3), numbers(3, 9, 1, 1)).conv
        setattr(conv, name, value)
        assert kernels.pk_conv_plan_bytes(byref(conv), 5) == 0
