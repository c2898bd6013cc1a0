"""How every benchmark measures: interleaved in one process, median of several rounds, so that noise hits all alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median


def interleaved(tasks: Mapping[str, Callable[[], object]], rounds: int = 7, warmups: int = 1) -> dict[str, float]:
    """Median seconds of each task; every round runs all of them once."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for round_ in range(warmups + rounds):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            if round_ >= warmups:
                seconds[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in seconds.items()}


def show(seconds: Mapping[str, float]) -> None:
    """Print the medians, widest name first column."""
    width = max(map(len, seconds))
    for name, value in seconds.items():
        print(f"{name:<{width}}  {value * 1000:10.1f} ms")
