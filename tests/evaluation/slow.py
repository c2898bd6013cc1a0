"""Rankings read slowly, straight from the definitions, for the tests to compare with."""

import numpy as np

from prunnet.data import UNLABELLED


def rankings(
    similarity: np.ndarray,
    query_labels: np.ndarray,
    gallery_labels: np.ndarray,
    query_cameras: np.ndarray | None = None,
    gallery_cameras: np.ndarray | None = None,
    same_set: bool = False,
) -> list[list[bool]]:
    """For each query whether the image at each rank answers it, junk left out; wrong images first among equals."""
    result = []
    for q, row in enumerate(similarity):
        entries = []
        for g, value in enumerate(row):
            same = query_labels[q] == gallery_labels[g] and gallery_labels[g] != UNLABELLED
            if same_set and q == g:
                continue
            if same and query_cameras is not None and query_cameras[q] == gallery_cameras[g]:
                continue
            entries.append((-value, same))
        result.append([same for _, same in sorted(entries)])
    return result


def slow_metric(name: str, hits: list[bool]) -> float:
    answers = sum(hits)
    if answers == 0:
        return float("nan")
    precision = [sum(hits[: rank + 1]) / (rank + 1) for rank in range(len(hits))]
    kind, _, at = name.partition("@")
    if name == "MAP@R":
        return sum(p for p, hit in zip(precision[:answers], hits, strict=False) if hit) / answers
    if name == "R-Precision":
        return precision[answers - 1]
    if kind == "mAP":
        k = int(at) if at else len(hits)
        return sum(p for p, hit in zip(precision[:k], hits, strict=False) if hit) / min(answers, k)
    assert kind in ("Recall", "CMC")
    return float(any(hits[: int(at)]))


METRICS = ("mAP", "mAP@1", "mAP@5", "mAP@100", "Recall@1", "Recall@4", "CMC@3", "MAP@R", "R-Precision")
