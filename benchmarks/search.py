"""A gallery against bare faiss: the same index with the same parameters, built, asked and held in memory.

    python benchmarks/search.py                    # 1,000,000 vectors of 256 dimensions: some minutes, 6 GB
    python benchmarks/search.py --count 100000     # how it grows

Vectors lie as embeddings of photographs do (`_embeddings.py`), and queries are by a small member. Bare faiss is
`index_factory`, `train`, `add` and `write_index` on an array in memory; the gallery reads the same vectors from its
segments, and also measures its recall and seals the file. Asking bare faiss is `index.search`, and a list that has the
id of every row; asking the gallery is `search`, and the id of every hit. Both take turns. Memory is what a fresh
process needs after its imports to open the index and to answer 1,000 queries; bare faiss has no ids there.

`qps_over_faiss`: batches of 100, `single_over_faiss`: one query at a time. `exact_…`: a gallery of up to 100,000, which
compares all, against `IndexFlatIP`. `opening_seconds`: the median of three fresh processes; `first_opening_seconds`: of
a gallery that was copied, of which every byte is read. `recall_at_10` is against the exact answers of these queries.
Targets: 0.95 or more, 1.1 or less for building and memory, recall 0.95, 1,000 durable additions a second in batches of
100, and opening within a second.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import faiss
import numpy as np
import torch

from _embeddings import DIMENSIONS, Structure
from _timing import show
from prunnet import Embeddings, VectorIndex
from prunnet._timing import medians
from prunnet.search import approximate
from prunnet.search import folder as folder_module
from prunnet.search.exact import blocks, search_blocks
from prunnet.search.folder import FolderIndex

FAMILY, QUERIES, CHUNK = "benchmark", 1000, 50_000
ASKED = 200
"""Queries in each round."""


def chunks(structure: Structure, count: int) -> Iterator[tuple[int, torch.Tensor]]:
    for number, start in enumerate(range(0, count, CHUNK)):
        yield start, structure.vectors(min(CHUNK, count - start), number + 1)


def names(start: int, count: int) -> list[str]:
    return [f"images/{row:09d}.jpg" for row in range(start, start + count)]


def fill(place: Path, structure: Structure, count: int) -> tuple[FolderIndex, float]:
    """A gallery with all vectors, and how many a second it took."""
    index = FolderIndex.make(place, FAMILY, DIMENSIONS)
    seconds = 0.0
    for start, vectors in chunks(structure, count):
        ids = names(start, len(vectors))
        began = time.perf_counter()
        index.add(Embeddings(vectors, FAMILY, 1.0), ids, [{"store": str(row % 50)} for row in range(len(vectors))])
        seconds += time.perf_counter() - began
    return index, count / seconds


def bare_build(array: np.ndarray, file: Path, entry: approximate.ApproximateEntry) -> float:
    began = time.perf_counter()
    kind = "SQfp16" if entry.codes == "fp16" else "SQ8"
    index = faiss.index_factory(DIMENSIONS, f"IVF{entry.lists},{kind}", faiss.METRIC_INNER_PRODUCT)
    index.cp.niter, index.cp.max_points_per_centroid = approximate.ITERATIONS, approximate.POINTS_PER_LIST
    index.train(array[:: max(1, len(array) // (approximate.POINTS_PER_LIST * entry.lists))])
    index.add(array)
    index.nprobe = entry.probes
    faiss.write_index(index, str(file))
    return time.perf_counter() - began


def durable(place: Path, structure: Structure, batch: int = 100, batches: int = 100) -> float:
    """Vectors a second, each batch on the disk before the next."""
    vectors = structure.vectors(batch * batches, seed=10_000)
    index = VectorIndex.create(place, Embeddings(vectors, FAMILY, 1.0))
    began = time.perf_counter()
    for number in range(batches):
        rows = slice(number * batch, (number + 1) * batch)
        index.add(Embeddings(vectors[rows], FAMILY, 1.0), [f"{number}/{row}" for row in range(batch)])
    return batch * batches / (time.perf_counter() - began)


FRESH = """
import sys, time, numpy, faiss, torch
from prunnet import Embeddings, VectorIndex
def used():
    return sum(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) / 1024
kind, place, queries = sys.argv[1:]
queries = torch.from_numpy(numpy.load(queries))
faiss.IndexFlatIP(8), VectorIndex
import prunnet.search.folder
before, began = used(), time.perf_counter()
if kind == "gallery":
    index = VectorIndex.open(place)
    opened = time.perf_counter() - began
    [[hit.id for hit in hits] for hits in index.search(Embeddings(queries, "benchmark", 1.0))]
else:
    index = faiss.read_index(place)
    opened = time.perf_counter() - began
    index.search(queries.numpy(), 10)
print(used() - before, opened)
"""


def fresh(kind: str, place: Path, queries: Path) -> tuple[float, float]:
    """Megabytes and seconds to open, of a process of its own."""
    told = subprocess.run(
        [sys.executable, "-c", FRESH, kind, place, queries], check=True, capture_output=True, text=True
    )
    megabytes, seconds = told.stdout.split()
    return float(megabytes), float(seconds)


def recall(index: FolderIndex, queries: torch.Tensor) -> float:
    _, true = search_blocks(queries, blocks(index.snapshot.segments), 10)
    _, found = index.nearest(queries, 10)
    return approximate.recall_of(found.numpy(), true.numpy())


def asking(index: FolderIndex, bare: faiss.Index, queries: torch.Tensor, rounds: int = 9) -> dict[str, float]:
    """Seconds for `ASKED` queries."""
    ids, array = names(0, len(index)), queries.numpy()

    def gallery(size: int) -> list[list[str]]:
        asked = (queries[start : start + size] for start in range(0, ASKED, size))
        return [[hit.id for hit in hits] for part in asked for hits in index.search(Embeddings(part, FAMILY, 1.0))]

    def plain(size: int) -> list[list[str]]:
        asked = (array[start : start + size] for start in range(0, ASKED, size))
        return [[ids[row] for row in rows] for part in asked for rows in bare.search(part, 10)[1].tolist()]

    return medians(
        {
            "gallery, batches of 100": lambda: gallery(100),
            "faiss, batches of 100": lambda: plain(100),
            "gallery, single": lambda: gallery(1),
            "faiss, single": lambda: plain(1),
        },
        rounds=rounds,
    )


def ratios(seconds: dict[str, float]) -> tuple[float, float]:
    """Of queries per second in batches, and of single ones."""
    return (
        seconds["faiss, batches of 100"] / seconds["gallery, batches of 100"],
        seconds["faiss, single"] / seconds["gallery, single"],
    )


def exact(folder: Path, structure: Structure, count: int, queries: torch.Tensor) -> dict[str, float]:
    index, _ = fill(folder / "exact", structure, count)
    bare = faiss.IndexFlatIP(DIMENSIONS)
    for _, vectors in chunks(structure, count):
        bare.add(vectors.numpy())
    return asking(index, bare, queries, rounds=3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        run(Path(folder), arguments.count)


def run(folder: Path, count: int) -> None:
    structure = Structure(count)
    queries = structure.queries(QUERIES, seed=20_000)
    np.save(folder / "queries.npy", queries.numpy())
    added = durable(folder / "durable", structure)
    compared = exact(folder, structure, min(count, folder_module.EXACT_ROWS), queries)
    folder_module.EXACT_ROWS = min(folder_module.EXACT_ROWS, count - 1)  # so that small ones compare as well
    index, bulk = fill(folder / "gallery", structure, count)
    began = time.perf_counter()
    index.flush()
    built = time.perf_counter() - began
    entry = index.manifest.approximate
    assert entry is not None
    array = np.concatenate([vectors.numpy() for _, vectors in chunks(structure, count)])
    bare_file = folder / "bare.faiss"
    bare_built = bare_build(array, bare_file, entry)
    del array
    found = recall(index, queries)
    seconds = asking(index, faiss.read_index(str(index.folder / entry.file.name)), queries)
    memory = [fresh(*pair, folder / "queries.npy") for pair in (("gallery", index.folder), ("faiss", bare_file))]
    opening = median(fresh("gallery", index.folder, folder / "queries.npy")[1] for _ in range(3))
    shutil.copytree(index.folder, folder / "copy")
    first_opening = fresh("gallery", folder / "copy", folder / "queries.npy")[1]
    print(f"{ASKED} queries, approximate")
    show(seconds)
    print(f"{ASKED} queries, exact among {min(count, 100_000):,}")
    show(compared)
    print(f"{entry.codes}, {entry.lists} lists, {entry.probes} probed; recall told {entry.recall:.3f}")
    print(f"built in {built:.1f} s, bare faiss in {bare_built:.1f} s; {memory[0][0]:.0f} and {memory[1][0]:.0f} MB")
    print(f"index {entry.file.bytes / count:.0f} bytes a vector, gallery {index.bytes / count:.0f}")
    print(f"vectors: {count}")
    print(f"bulk_adds_per_second: {bulk:.0f}")
    print(f"durable_adds_per_second: {added:.0f}")
    print(f"first_opening_seconds: {first_opening:.2f}")
    print(f"opening_seconds: {opening:.2f}")
    print(f"single_query_ms: {1000 * seconds['gallery, single'] / ASKED:.3f}")
    print(f"batch_query_ms: {1000 * seconds['gallery, batches of 100'] / ASKED:.3f}")
    print(f"exact_query_ms: {1000 * compared['gallery, single'] / ASKED:.3f}")
    print("exact_qps_over_faiss: {:.2f}\nexact_single_over_faiss: {:.2f}".format(*ratios(compared)))
    batches, single = ratios(seconds)
    print(f"single_over_faiss: {single:.2f}")
    print(f"qps_over_faiss: {batches:.2f}")
    print(f"build_over_faiss: {built / bare_built:.2f}")
    print(f"memory_over_faiss: {memory[0][0] / memory[1][0]:.2f}")
    print(f"recall_at_10: {found:.3f}")


if __name__ == "__main__":
    main()
