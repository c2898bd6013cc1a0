"""The one timer: tasks take turns in one process, and medians count."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median


def medians(tasks: Mapping[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """Median seconds of each task. Every round runs all of them, so that what else the machine does hits all alike.

    Each is called once unmeasured before it is measured, and the order rotates: caches and the still spinning threads
    of whichever ran before would otherwise favour some tasks over others.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    order = deque(tasks)
    for _ in range(rounds):
        for name in order:
            tasks[name]()
            start = time.perf_counter()
            tasks[name]()
            seconds[name].append(time.perf_counter() - start)
        order.rotate()
    return {name: median(values) for name, values in seconds.items()}
