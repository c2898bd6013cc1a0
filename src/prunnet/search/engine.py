"""faiss, where it is installed. Without it every vector is compared."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

Found = tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]


@cache
def installed() -> bool:
    return find_spec("faiss") is not None


def faiss() -> Any:
    return import_module("faiss")


def search(index: Any, queries: npt.NDArray[np.float32], k: int, options: Any = None) -> Found:
    """Scores and rows `[queries, k]` of an index of faiss; -1 where fewer were found.

    `index.search` would do, but `faiss.contrib.torch_utils`, which pytorch-metric-learning imports, replaces it for the
    whole process by one that takes no `params`. The function that both of them call takes them.
    """
    pointer = faiss().swig_ptr
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    scores = np.empty((len(queries), k), dtype=np.float32)
    rows = np.empty((len(queries), k), dtype=np.int64)
    index.search_c(len(queries), pointer(queries), k, pointer(scores), pointer(rows), options)
    return scores, rows
