"""Evaluation: metrics, published protocols, and the compatibility matrix.

matrix = prunnet.evaluate(net, data, capacities=(1, 0.8, 0.6, 0.4, 0.2))
print(matrix)                        # M(φq, φg), a row per query network
matrix.check()                       # true if every cross-test reaches the smaller one's self-test
matrix.heatmap("matrix.png")
"""

from prunnet.evaluation.bootstrap import Intervals
from prunnet.evaluation.check import CompatibilityCheck, Violation
from prunnet.evaluation.embedding import (
    Embedded,
    EmbeddedBatch,
    Encoder,
    embed_images,
    embed_readable,
    embedded_batches,
)
from prunnet.evaluation.matrix import CompatibilityMatrix, Model
from prunnet.evaluation.metrics import Metric, score
from prunnet.evaluation.relevance import LabelRelevance, Relevance, TruthRelevance, relevance_of
from prunnet.evaluation.revisited import revisited_map
from prunnet.evaluation.scoring import compatibility_matrix, evaluate

__all__ = [
    "CompatibilityCheck",
    "CompatibilityMatrix",
    "Embedded",
    "EmbeddedBatch",
    "Encoder",
    "Intervals",
    "LabelRelevance",
    "Metric",
    "Model",
    "Relevance",
    "TruthRelevance",
    "Violation",
    "compatibility_matrix",
    "embed_images",
    "embed_readable",
    "embedded_batches",
    "evaluate",
    "relevance_of",
    "revisited_map",
    "score",
]
