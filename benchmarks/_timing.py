"""How every benchmark prints what `prunnet._timing.medians` measured."""

from collections.abc import Mapping


def show(seconds: Mapping[str, float]) -> None:
    """Print the medians, widest name first column."""
    width = max(map(len, seconds))
    for name, value in seconds.items():
        print(f"{name:<{width}}  {value * 1000:10.1f} ms")
