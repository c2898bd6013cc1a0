"""Measured time: any subnetwork, in any runtime, on this machine."""

import re
from collections.abc import Callable

import torch

from prunnet._timing import medians
from prunnet.deploy import packed
from prunnet.deploy.export import onnx_format, openvino_format
from prunnet.deploy.export.tracing import Run, detached, trace
from prunnet.errors import CapacityError, ExportError
from prunnet.network import Subnetwork

RUNTIMES = ("torch", "onnxruntime", "openvino", "prunnet")
SMALLEST_TRIED = 0.05
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def runner(subnetwork: Subnetwork, runtime: str) -> Run:
    """`subnetwork` ready to be called in `runtime`, on the CPU."""
    if runtime == "torch":
        return torch.inference_mode()(detached(subnetwork))
    if runtime == "onnxruntime":
        return onnx_format.runner(trace(subnetwork))
    if runtime == "openvino":
        return openvino_format.runner(trace(subnetwork))
    if runtime == "prunnet":
        return packed.runner(subnetwork)
    raise ExportError(f"unknown runtime {runtime!r}; known are {', '.join(RUNTIMES)}")


def latency(subnetwork: Subnetwork, runtime: str) -> float:
    """Median seconds for one image."""
    run, image = runner(subnetwork, runtime), torch.randn(1, *subnetwork.preprocessing.input_size)
    return medians({runtime: lambda: run(image)})[runtime]


def parse_latency(value: float | str) -> float:
    """Seconds, from a number of them or from text such as "8ms"."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(us|ms|s)\s*", value) if isinstance(value, str) else None
    if isinstance(value, str) and match is None:
        raise CapacityError(f"a latency is a number with its unit, such as 8ms or 0.1s; found {value!r}")
    seconds = float(value) if match is None else float(match[1]) * _UNITS[match[2]]
    if not seconds > 0:
        raise CapacityError(f"a latency must be greater than 0; found {value}")
    return seconds


def largest_within(
    measure: Callable[[float], float], budget: float, runtime: str, structured: bool, steps: int = 6
) -> float:
    """The largest size in [0.05, 1] (capacity, or width of a structured one) that takes at most `budget` seconds.

    Halves the interval `steps` times and measures what is in the middle.
    """
    dense = measure(1.0)
    if dense <= budget:
        return 1.0
    smallest = measure(SMALLEST_TRIED)
    if smallest > budget:
        raise CapacityError(
            f"no subnetwork takes at most {1e3 * budget:.3g} ms in {runtime} here: {1e3 * dense:.3g} ms dense, "
            f"{1e3 * smallest:.3g} ms at {SMALLEST_TRIED:.0%}; {_advice(runtime, structured)}"
        )
    low, high = SMALLEST_TRIED, 1.0
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if measure(middle) <= budget else (low, middle)
    return low


def _advice(runtime: str, structured: bool) -> str:
    """What to do where not even the smallest is fast enough."""
    if structured:
        return "it has to be another backbone"
    if runtime == "prunnet":
        return "prune structured, or take another backbone"
    return (
        "only the runtime prunnet uses zeros; in others unstructured latency does not fall with capacity: "
        "prune structured"
    )
