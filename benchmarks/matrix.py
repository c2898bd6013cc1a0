"""All 36 pairs of 6 capacities against the bare matrix products: 50,000 gallery images, 5,000 queries, 256 dimensions.

    python benchmarks/matrix.py

`ratio` is the time of scoring a pair (mAP) over that of its product alone, `query @ gallery.T`, on class-clustered
embeddings with 5 to 20 answers per query. That product fills a new gigabyte each time; `ratio_warm` compares with the
same product into a buffer of 1,000 rows that stays in memory, which nobody can keep but which is all arithmetic.
The cost grows with the number of answers and hardly depends on how good the embeddings are: `ratio_few_answers` has 2
to 6 of them, as In-shop and Stanford Online Products do; `ratio_random` has 5 to 20 in embeddings without structure.
Products and scoring alternate pair by pair, so all see the same machine. Target: `ratio` at most 1.3, 2 GB.
"""

import threading
from pathlib import Path
from statistics import median

import numpy as np
import torch

from prunnet._timing import medians
from prunnet.data.retrieval import LabelAnswers
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
    asked, answering = labels(*answers)
    query = [embeddings(asked, noise, seed) for seed in range(1, capacities + 1)]
    gallery = [embeddings(answering, noise, seed) for seed in range(11, capacities + 11)]
    scratch = torch.zeros(1000, GALLERY)
    relevance, metric = LabelRelevance(LabelAnswers(asked, answering)), [Metric.parse("mAP")]
    times: dict[str, list[float]] = {"product": [], "warm product": [], "scoring": []}
    scores, peaks = [], []
    for column in gallery:
        arranged = relevance.arrange(column)
        arranging = medians({"": lambda column=column: relevance.arrange(column)}, 1)[""] / capacities
        for row in query:

            def score_pair(row: torch.Tensor = row, arranged: torch.Tensor = arranged) -> None:
                with PeakMemory() as memory:
                    scores.append(np.nanmean(score_arranged(row, arranged, relevance, metric, MEMORY)))
                peaks.append(memory.gigabytes)

            # a round for each of many pairs, instead of many for one
            tasks = {
                "product": lambda row=row, column=column: row @ column.T,
                "warm product": lambda row=row, column=column: warm_product(row, column, scratch),
                "scoring": score_pair,
            }
            for name, seconds in medians(tasks, 1).items():
                times[name].append(seconds + arranging * (name == "scoring"))
    ratio, ratio_warm = (
        median(after / before for after, before in zip(times["scoring"], times[baseline], strict=True))
        for baseline in ("product", "warm product")
    )
    spent = ", ".join(f"{name} {sum(seconds):.1f} s" for name, seconds in times.items())
    pairs = f"{answers[0]}–{answers[1]} answers, mAP {100 * np.mean(scores):.1f} %, {len(times['scoring'])} pairs"
    print(f"{pairs}: {spent}, ratio {ratio:.2f}")
    return ratio, ratio_warm, max(peaks)


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
