"""All 36 pairs of 6 capacities against the bare matrix products: 50,000 gallery images, 5,000 queries, 256 dimensions.

    python benchmarks/matrix.py

`ratio` is the time of scoring a pair (mAP) over that of its product alone, `query @ gallery.T`, on class-clustered
embeddings with 5 to 20 answers per query. That product fills a new gigabyte each time; `ratio_warm` compares with the
same product into a buffer of 1,000 rows that stays in memory, which nobody can keep but which is all arithmetic.
The cost grows with the number of answers and hardly depends on how good the embeddings are: `ratio_few_answers` has 2
to 6 of them, as In-shop and Stanford Online Products do; `ratio_random` has 5 to 20 in embeddings without structure.
Products and scoring alternate pair by pair, so all see the same machine. Target: `ratio` at most 1.3, 2 GB.
"""

import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from prunnet.data.answers import LabelAnswers
from prunnet.evaluation.metrics import Metric, score_arranged
from prunnet.evaluation.relevance import LabelRelevance

CAPACITIES, QUERIES, GALLERY, DIMENSIONS = 6, 5_000, 50_000, 256
MEMORY = "1GB"
PAGE = 4096


def labels(fewest: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Gallery classes of `fewest` to `most` images; a query asks for a class, large or small alike."""
    generator = np.random.default_rng(0)
    sizes = generator.integers(fewest, most + 1, GALLERY // fewest)
    gallery = np.repeat(np.arange(len(sizes)), sizes)[:GALLERY]
    return generator.integers(0, gallery[-1], QUERIES), generator.permutation(gallery)


def embeddings(classes: np.ndarray, noise: float, seed: int) -> torch.Tensor:
    """A centre per class, common to all capacities, plus `noise` times as much noise."""
    centres = torch.randn(GALLERY, DIMENSIONS, generator=torch.Generator().manual_seed(0))
    drawn = torch.randn(len(classes), DIMENSIONS, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(centres[torch.from_numpy(classes)] / noise + drawn)


def warm_product(query: torch.Tensor, gallery: torch.Tensor, scratch: torch.Tensor) -> None:
    for start in range(0, len(query), len(scratch)):
        rows = query[start : start + len(scratch)]
        torch.mm(rows, gallery.T, out=scratch[: len(rows)])


def measure(answers: tuple[int, int], noise: float, capacities: int) -> tuple[float, float, float]:
    """The median ratio over all pairs to plain and to warm products, and the most memory (GB) scoring took."""
    asked, found = labels(*answers)
    query = [embeddings(asked, noise, seed) for seed in range(1, capacities + 1)]
    gallery = [embeddings(found, noise, seed) for seed in range(11, capacities + 11)]
    scratch = torch.zeros(1000, GALLERY)
    relevance, metric = LabelRelevance(LabelAnswers(asked, found)), [Metric.parse("mAP")]
    plain, warm, scored, scores, peaks = [], [], [], [], []
    for column in gallery:
        start = time.perf_counter()
        arranged = relevance.arrange(column)
        arranging = (time.perf_counter() - start) / capacities
        for row in query:
            plain.append(seconds(lambda row=row, column=column: row @ column.T))
            warm.append(seconds(lambda row=row, column=column: warm_product(row, column, scratch)))
            with PeakMemory() as memory:
                start = time.perf_counter()
                scores.append(np.nanmean(score_arranged(row, arranged, relevance, metric, MEMORY)))
                scored.append(time.perf_counter() - start + arranging)
            peaks.append(memory.gigabytes)
    ratio, ratio_warm = (
        statistics.median(after / before for after, before in zip(scored, baseline, strict=True))
        for baseline in (plain, warm)
    )
    print(
        f"{answers[0]}–{answers[1]} answers, mAP {100 * np.mean(scores):.1f} %, {len(scored)} pairs: products "
        f"{sum(plain):.1f} s, warm products {sum(warm):.1f} s, scoring {sum(scored):.1f} s, ratio {ratio:.2f}"
    )
    return ratio, ratio_warm, max(peaks)


def seconds(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


class PeakMemory:
    """The resident memory of this process while the block runs, above what it was at its start."""

    def __enter__(self) -> "PeakMemory":
        self.start = self.peak = _resident()
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._run)
        self._watch.start()
        return self

    def _run(self) -> None:
        while not self._done.wait(0.01):
            self.peak = max(self.peak, _resident())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watch.join()

    @property
    def gigabytes(self) -> float:
        return (self.peak - self.start) / 1e9


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


if __name__ == "__main__":
    unstructured, _, _ = measure((5, 20), float("inf"), 2)
    few, _, _ = measure((2, 6), 1.8, 2)
    clustered, clustered_warm, peak = measure((5, 20), 1.8, CAPACITIES)
    print(f"peak_memory_gb: {peak:.2f}")
    print(f"ratio_random: {unstructured:.2f}")
    print(f"ratio_few_answers: {few:.2f}")
    print(f"ratio_warm: {clustered_warm:.2f}")
    print(f"ratio: {clustered:.2f}")
