"""Retrieval through a gallery against `prunnet.evaluate`: the same mAP, to the last digit where search is exact.

    python benchmarks/index_equality.py                                          # built-in glyphs
    python benchmarks/index_equality.py --data omniglot --root DATA/omniglot
    python benchmarks/index_equality.py --data DATA/grocery/open_classes.csv

The network is not trained (`--run` takes one that is): what is compared are two ways of ranking the same embeddings.
`approximate_difference` is by an inverted file with half-precision codes, over the first 100 answers, beside the same
over exact ones. `recall_told` is what that file says of itself, `recall_at_10` what these queries find.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch

import prunnet
from prunnet.data import shuffled_loader
from prunnet.evaluation import Metric, embed_images
from prunnet.evaluation.relevance import ABSENT, Before
from prunnet.search import FolderIndex, label_of, mean_average_precision
from prunnet.search import folder as folder_module
from prunnet.search.approximate import recall_of

CAPACITIES = (1.0, 0.2)
FIRST = 100


def untrained(data: prunnet.data.RetrievalData) -> prunnet.Family:
    channels = 1 if data.gallery.image(0).mode == "L" else 3
    torch.manual_seed(0)
    backbone = prunnet.create_backbone("resnet18", in_chans=channels, channels=(16, 32, 64, 128), layers=(1, 1, 1, 1))
    net = prunnet.convert(backbone, 64, preprocessing=prunnet.Preprocessing((channels, 64, 64)))
    net.adapt(shuffled_loader(data.gallery, net.preprocessing), CAPACITIES, adapt_batches=10)
    return net


def first_answers(gallery: FolderIndex, queries: prunnet.Embeddings, labels: list[str | None]) -> float:
    """mAP@100 of the answers that `search` gives."""
    metric, values = Metric.parse(f"mAP@{FIRST}"), []
    wanted = {label: sum(one == label for one in gallery_labels(gallery)) for label in set(labels)}
    for label, hits in zip(labels, gallery.search(queries, FIRST), strict=True):
        right = np.array([hit.metadata.get("label") == label for hit in hits])
        before = np.full((1, max(1, wanted[label])), ABSENT, dtype=np.int64)
        places = np.flatnonzero(right)
        before[0, : len(places)] = places - np.arange(len(places))
        before[0, len(places) :] = len(hits) + FIRST  # further down than is looked
        values.append(metric(Before(before))[0])
    return float(np.mean(values))


def gallery_labels(gallery: FolderIndex) -> list[object]:
    return [
        gallery.snapshot.record(row).metadata.get("label") for row in np.flatnonzero(gallery.snapshot.live).tolist()
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="glyphs")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--run", type=Path)
    arguments = parser.parse_args()
    data = prunnet.load_data(arguments.data, arguments.root)
    family = untrained(data) if arguments.run is None else prunnet.load(arguments.run)
    matrix = prunnet.evaluate(family, data, CAPACITIES, "mAP")
    labels = [label_of(data.query, place) for place in range(len(data.query))]
    with tempfile.TemporaryDirectory() as folder:
        prunnet.index(Path(folder, "gallery"), family.subnetwork(1.0), data.gallery)
        gallery = FolderIndex(Path(folder, "gallery"))
        differences = []
        for capacity in CAPACITIES:
            queries = embed_images(family.subnetwork(capacity), data.query)
            through = mean_average_precision(gallery, queries, labels, [None] * len(labels))
            assert through is not None
            differences.append(abs(through - matrix.at(capacity, 1.0)))
            print(f"{100 * capacity:g} %: evaluate {matrix.at(capacity, 1.0):.12f}, gallery {through:.12f}")
        queries = embed_images(family.subnetwork(1.0), data.query)
        exact, right = first_answers(gallery, queries, labels), gallery.nearest(queries.vectors, 10)[1]
        folder_module.EXACT_ROWS = len(gallery) // 2
        gallery.flush()
        entry = gallery.manifest.approximate
        assert entry is not None
        approximate, found = first_answers(gallery, queries, labels), gallery.nearest(queries.vectors, 10)[1]
    print(f"mAP@{FIRST}: exact {exact:.6f}, approximate {approximate:.6f}")
    print(f"queries: {len(data.query)}")
    print(f"gallery: {len(data.gallery)}")
    print(f"exact_difference: {max(differences):g}")
    print(f"approximate_difference: {abs(exact - approximate):.6f}")
    print(f"recall_told: {entry.recall:.3f}")
    print(f"recall_at_10: {recall_of(found.numpy(), right.numpy()):.3f}")


if __name__ == "__main__":
    main()
