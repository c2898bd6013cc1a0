"""A gallery against bare faiss: the same inverted file with the same parameters, built, asked and held in memory.

    python benchmarks/search.py                    # 1,000,000 vectors of 256 dimensions: some minutes, 6 GB
    python benchmarks/search.py --count 100000     # how it grows

Vectors have the structure of embeddings: groups of classes, classes, and noise that lies mostly in few directions. A
query is another image of a class, embedded by a smaller member: the same structure with noise of its own. Bare faiss is
`index_factory`, `train`, `add` and `write_index` on an array in memory; the gallery reads the same vectors from its
segments, and also measures its recall and seals the file. Questions take turns; memory is what a fresh process needs
after its imports to open the index and answer 1,000 queries.

`qps_over_faiss`: batches of 100, `single_over_faiss`: one query at a time; ids are read. `recall_at_10` is against the
exact answers of these queries. Targets: 0.95 or more, 1.1 or less for building and memory, recall 0.95, 1,000 durable
additions a second in batches of 100, and opening within a second.
"""

import argparse
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
import torch.nn.functional as F

from _timing import show
from prunnet import Embeddings, VectorIndex
from prunnet._timing import medians
from prunnet.search import approximate
from prunnet.search import folder as folder_module
from prunnet.search.exact import blocks, search_blocks
from prunnet.search.folder import FolderIndex

DIMENSIONS, FAMILY, QUERIES, CHUNK = 256, "benchmark", 1000, 50_000


class Structure:
    """Where the vectors of a gallery lie."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.classes = max(100, count // 25)
        groups = torch.randn(max(10, self.classes // 40), DIMENSIONS, generator=generator)
        of_class = torch.randint(len(groups), (self.classes,), generator=generator)
        self.centres = F.normalize(groups[of_class] + 0.9 * torch.randn(self.classes, DIMENSIONS, generator=generator))
        falling = torch.linspace(1, 0.05, DIMENSIONS) ** 2
        self.directions = torch.linalg.qr(torch.randn(DIMENSIONS, DIMENSIONS, generator=generator)).Q * falling[:, None]

    def vectors(self, count: int, seed: int, more_noise: float = 0.0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randint(self.classes, (count,), generator=generator)
        noise = F.normalize(torch.randn(count, DIMENSIONS, generator=generator) @ self.directions)
        own = F.normalize(torch.randn(count, DIMENSIONS, generator=generator))
        return F.normalize(self.centres[chosen] + 1.2 * noise + more_noise * own)


def chunks(structure: Structure, count: int) -> Iterator[tuple[int, torch.Tensor]]:
    for number, start in enumerate(range(0, count, CHUNK)):
        yield start, structure.vectors(min(CHUNK, count - start), number + 1)


def fill(place: Path, structure: Structure, count: int) -> tuple[FolderIndex, float]:
    """A gallery with all vectors, and how many a second it took."""
    index = FolderIndex.make(place, FAMILY, DIMENSIONS)
    seconds = 0.0
    for start, vectors in chunks(structure, count):
        ids = [f"images/{row:09d}.jpg" for row in range(start, start + len(vectors))]
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
    pairs = zip(found.tolist(), true.tolist(), strict=True)
    return float(np.mean([len({*answers} & {*right}) / 10 for answers, right in pairs]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    arguments = parser.parse_args()
    folder_module.EXACT_ROWS = min(folder_module.EXACT_ROWS, arguments.count - 1)  # so that small ones compare as well
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        run(Path(folder), arguments.count)


def run(folder: Path, count: int) -> None:
    structure = Structure(count)
    added = durable(folder / "durable", structure)
    index, bulk = fill(folder / "gallery", structure, count)
    queries = structure.vectors(QUERIES, seed=20_000, more_noise=0.3)
    np.save(folder / "queries.npy", queries.numpy())
    began = time.perf_counter()
    index.flush()
    built = time.perf_counter() - began
    entry = index.manifest.approximate
    assert entry is not None
    array = np.concatenate([vectors.numpy() for _, vectors in chunks(structure, count)])
    bare_file = folder / "bare.faiss"
    bare_built = bare_build(array, bare_file, entry)
    del array
    bare = faiss.read_index(str(index.folder / entry.file.name))
    found = recall(index, queries)

    def ours(size: int) -> list[list[str]]:
        asked = (queries[start : start + size] for start in range(0, 200, size))
        return [[hit.id for hit in hits] for part in asked for hits in index.search(Embeddings(part, FAMILY, 1.0))]

    seconds = medians(
        {
            "gallery, batches of 100": lambda: ours(100),
            "faiss, batches of 100": lambda: [bare.search(queries[s : s + 100].numpy(), 10) for s in (0, 100)],
            "gallery, single": lambda: ours(1),
            "faiss, single": lambda: [bare.search(queries[s : s + 1].numpy(), 10) for s in range(200)],
            "exact, single (20)": lambda: [
                search_blocks(queries[s : s + 1], blocks(index.snapshot.segments), 10) for s in range(20)
            ],
        },
        rounds=7,
    )
    show(seconds)
    memory = [fresh(*pair, folder / "queries.npy") for pair in (("gallery", index.folder), ("faiss", bare_file))]
    opening = median(fresh("gallery", index.folder, folder / "queries.npy")[1] for _ in range(3))
    print(f"{entry.codes}, {entry.lists} lists, {entry.probes} probed; recall told {entry.recall:.3f}")
    print(f"built in {built:.1f} s, bare faiss in {bare_built:.1f} s; {memory[0][0]:.0f} and {memory[1][0]:.0f} MB")
    print(f"index {entry.file.bytes / count:.0f} bytes a vector, gallery {index.bytes / count:.0f}")
    print(f"vectors: {count}")
    print(f"bulk_adds_per_second: {bulk:.0f}")
    print(f"durable_adds_per_second: {added:.0f}")
    print(f"opening_seconds: {opening:.2f}")
    print(f"single_query_ms: {1000 * seconds['gallery, single'] / 200:.3f}")
    print(f"exact_query_ms: {1000 * seconds['exact, single (20)'] / 20:.2f}")
    print(f"single_over_faiss: {seconds['faiss, single'] / seconds['gallery, single']:.2f}")
    print(f"qps_over_faiss: {seconds['faiss, batches of 100'] / seconds['gallery, batches of 100']:.2f}")
    print(f"build_over_faiss: {built / bare_built:.2f}")
    print(f"memory_over_faiss: {memory[0][0] / memory[1][0]:.2f}")
    print(f"recall_at_10: {found:.3f}")


if __name__ == "__main__":
    main()
