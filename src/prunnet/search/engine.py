"""faiss, where it is installed. Without it every vector is compared."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@cache
def installed() -> bool:
    return find_spec("faiss") is not None


def faiss() -> Any:
    return import_module("faiss")
