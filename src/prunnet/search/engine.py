"""faiss, where it is installed. Without it every vector is compared."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
Found = tuple[Vectors, Rows]


@cache
def installed() -> bool:
    return find_spec("faiss") is not None


@cache
def faiss() -> Any:
    return import_module("faiss")


def search(index: Any, queries: Vectors, k: int, options: Any = None) -> Found:
    """Scores and rows `[queries, k]` of an index of faiss; -1 where fewer were found.

    `index.search` would do, but `faiss.contrib.torch_utils`, which pytorch-metric-learning imports, replaces it for the
    whole process by one that takes no `params`. The function that both of them call takes them.
    """
    pointer = faiss().swig_ptr
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    scores, rows = _room(len(queries), k)
    index.search_c(len(queries), pointer(queries), k, pointer(scores), pointer(rows), options)
    return scores, rows


def compare(queries: Vectors, vectors: Vectors, k: int, allowed: Flags | None = None) -> Found:
    """The same by comparing with all of `vectors`, or those `allowed`."""
    library = faiss()
    pointer = library.swig_ptr
    chosen = None if allowed is None else Chosen(allowed)
    scores, rows = _room(len(queries), k)
    library.knn_inner_product(
        pointer(queries),
        pointer(vectors),
        queries.shape[1],
        len(queries),
        len(vectors),
        k,
        pointer(scores),
        pointer(rows),
        None if chosen is None else chosen.selector,
    )
    return scores, rows


class Chosen:
    """Rows that may answer, as faiss wants them told; it keeps the memory that faiss looks at."""

    def __init__(self, flags: Flags) -> None:
        self._bits = np.packbits(flags, bitorder="little")
        self.selector = faiss().IDSelectorBitmap(len(flags), faiss().swig_ptr(self._bits))


def _room(queries: int, k: int) -> Found:
    return np.empty((queries, k), dtype=np.float32), np.empty((queries, k), dtype=np.int64)
