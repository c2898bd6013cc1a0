"""Quantities as people write them: "3MB", "200 MiB", "1.8G"."""

import re

from prunnet.errors import CapacityError

_PREFIXES = {
    "": 1.0,
    "k": 1e3,
    "m": 1e6,
    "g": 1e9,
    "t": 1e12,
    "ki": 2.0**10,
    "mi": 2.0**20,
    "gi": 2.0**30,
    "ti": 2.0**40,
}
_PATTERN = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)\s*([kmgt]i?)?\s*([a-z]*)\s*", re.IGNORECASE)


def parse_quantity(value: float | str, unit: str) -> float:
    """`value` as a number; text may carry a prefix (k, M, G, Ki, Mi, Gi) and the `unit`."""
    if isinstance(value, str):
        match = _PATTERN.fullmatch(value)
        allowed = {"", unit.lower(), "macs" if unit == "" else ""}
        if match is None or match[3].lower() not in allowed:
            raise CapacityError(
                f"a budget is a number with an optional prefix, such as 3M{unit} or 200k{unit}; found {value!r}"
            )
        value = float(match[1]) * _PREFIXES[(match[2] or "").lower()]
    if not value > 0:
        raise CapacityError(f"a budget must be greater than 0; found {value:g}")
    return float(value)


def format_quantity(value: float, unit: str) -> str:
    """`2_900_000, "B"` → `2.90 MB`."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.2f} {prefix}{unit}"
    return f"{value:.0f} {unit}".rstrip()
