"""Damage: to bytes, as disks and networks do it, and to the values of a document, as somebody with bad intent does."""

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

PAGE = 512


def damaged(data: bytes, rng: Random) -> bytes:
    """`data` after one to three accidents; never `data` itself."""
    result = data
    while result == data:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            result = rng.choice(_ACCIDENTS)(result, rng)
    return result


def _flip(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if data else 0):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _zero_page(data: bytes, rng: Random) -> bytes:
    start = rng.randrange(0, len(data) + 1, PAGE)
    page = data[start : start + PAGE]
    return data[:start] + bytes(len(page)) + data[start + PAGE :]


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _extend(data: bytes, rng: Random) -> bytes:
    return data + rng.choice((b"\0", rng.randbytes(rng.randrange(1, 200)), data[: rng.randrange(len(data) + 1)]))


def _swap(data: bytes, rng: Random) -> bytes:
    """Two stretches change places."""
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _overwrite(data: bytes, rng: Random) -> bytes:
    start, what = rng.randrange(len(data) + 1), rng.randbytes(rng.randrange(1, 64))
    return data[:start] + what + data[start + len(what) :]


def _drop(data: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.randrange(1, 64) :]


_ACCIDENTS: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flip,
    _flip,
    _zero_page,
    _cut,
    _extend,
    _swap,
    _overwrite,
    _drop,
)

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        7,
        64,
        257,
        10**4,
        10**5,
        10**6,
        10**7,
        10**9,
        2**31 - 1,
        2**31,
        2**63,
        10**30,
    ),
    *(-(10**9), 0.0, 0.5, 1.5, -0.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf")),
    *("", "a", "0.5", "NaN", "\0", "\n", "é" * 50, "x" * 10**5, "../../..", "/dev/zero", "*", "%s%n", "avg", "gelu"),
    *([], {}, [[]], [[[[[1]]]]], [10**9] * 4, [1e308, -1e308], {"a": {"b": {"c": []}}}),
)


_DEPTHS = (50, 150, 900, 100_000)
_NESTED = "nested as deep as {}"  # becomes lists in JSON, since Python could not copy such a value


def forged(document: Any, rng: Random, extra: tuple[Any, ...] = ()) -> Any:
    """`document` with one to three values, keys or entries exchanged for others."""
    changed = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(changed))
        if not places:
            return rng.choice(VALUES)
        container, key = rng.choice(places)
        _CHANGES[rng.randrange(len(_CHANGES))](container, key, rng, extra)
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def _replace(container: Any, key: Any, rng: Random, extra: tuple[Any, ...]) -> None:
    container[key] = copy.deepcopy(rng.choice((*VALUES, *extra, *map(_NESTED.format, _DEPTHS))))


def _scale(container: Any, key: Any, rng: Random, extra: tuple[Any, ...]) -> None:
    value = container[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _replace(container, key, rng, extra)
    container[key] = rng.choice(
        (value + 1, value - 1, value * 2, value * 1000, value * 10**9, -value, value / 2, value / 3)
    )
    return None


def _remove(container: Any, key: Any, rng: Random, extra: tuple[Any, ...]) -> None:  # noqa: ARG001
    del container[key]


def _add(container: Any, key: Any, rng: Random, extra: tuple[Any, ...]) -> None:
    value = copy.deepcopy(rng.choice((*VALUES, *extra)))
    if isinstance(container, list):
        container.insert(key, value)
    else:
        container[rng.choice(("extra", "version", "", "depth", "layers", "img_size", "width", "format"))] = value


def _exchange(container: Any, key: Any, rng: Random, extra: tuple[Any, ...]) -> None:  # noqa: ARG001
    other = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
    container[key], container[other] = container[other], container[key]


def _rename(container: Any, key: Any, rng: Random, extra: tuple[Any, ...]) -> None:
    if isinstance(container, dict):
        container[rng.choice((f"{key}x", "", *container))] = container.pop(key)
    else:
        _replace(container, key, rng, extra)


_CHANGES = (_replace, _replace, _replace, _scale, _scale, _remove, _add, _exchange, _rename)


def recipes(canary: Path) -> tuple[Any, ...]:
    """Backbones and options that would take all memory, never end, or load what they should not."""
    tiny = {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]}
    return (
        {"name": "resnet18", "options": {**tiny, "layers": [10**9] * 4}},
        {"name": "resnet18", "options": {**tiny, "layers": [60_000] * 4}},
        {"name": "resnet18", "options": {**tiny, "channels": [60_000] * 4}},
        {"name": "resnet18", "options": {**tiny, "global_pool": "catavgmax"}},
        {"name": "resnet18", "options": {**tiny, "act_layer": "gelu"}},
        {"name": "resnet18", "options": {**tiny, "checkpoint_path": str(canary.with_suffix(".pth"))}},
        {"name": "resnet18", "options": {**tiny, "pretrained": True}},
        {"name": "resnet18", "options": {**tiny, "features_only": True}},
        {"name": "resnet18", "options": {**tiny, "output_stride": 0}},
        {"name": "resnet18", "options": {**tiny, "norm_layer": "os.system"}},
        {"name": "resnet152", "options": {}},
        {"name": "vit_tiny_patch16_224", "options": {"depth": 10**7}},
        {"name": "vit_tiny_patch16_224", "options": {"depth": 60_000}},
        {"name": "vit_tiny_patch16_224", "options": {"img_size": 60_000, "patch_size": 1}},
        {"name": "swin_tiny_patch4_window7_224", "options": {"img_size": 60_000}},
        {"name": "hf_hub:timm/resnet18", "options": {}},
        {"name": f"local-dir:{canary.parent}", "options": {}},
    )


def pickled(canary: Path) -> bytes:
    """What creates the canary when it is unpickled."""
    import pickle

    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch {canary}",)

    return pickle.dumps(Payload())


def as_json(value: Any) -> bytes:
    text = json.dumps(value)
    for depth in _DEPTHS:
        text = text.replace(f'"{_NESTED.format(depth)}"', "[" * depth + "]" * depth)
    return text.encode("utf-8", "surrogatepass")
