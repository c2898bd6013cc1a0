"""t-SNE of what the dense network and its subnetworks make of the same images: one space, if they are compatible."""

from pathlib import Path

import numpy as np

from prunnet.data import ImageSet, RetrievalData
from prunnet.errors import MissingExtraError
from prunnet.evaluation import embed_images
from prunnet.experiments.figures import panels, save_figure
from prunnet.experiments.jobs import saved_capacities
from prunnet.network.capacity import format_capacity
from prunnet.runs import Run

CLASSES = 8
CAPACITIES = {1.0: "o", 0.6: "^", 0.2: "s"}


def tsne_figure(run: Run, data: RetrievalData, folder: Path) -> None:
    """Gallery images of a few classes: a colour per class, a marker per capacity."""
    try:
        from sklearn.manifold import TSNE  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtraError("scikit-learn", "figures", "the t-SNE figure") from None
    capacities = [capacity for capacity in saved_capacities(run) if capacity in CAPACITIES]
    images = few_classes(data.gallery)
    vectors = np.concatenate([embed_images(run.network.subnetwork(c), images).vectors.numpy() for c in capacities])
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    places = TSNE(perplexity=perplexity, random_state=0, init="pca").fit_transform(vectors)
    figure, (axes,) = panels(1, width=6, height=5)
    style = {"c": images.labels, "cmap": "tab10", "s": 14, "alpha": 0.8}
    for part, capacity in zip(np.split(places, len(capacities)), capacities, strict=True):
        axes.scatter(*part.T, marker=CAPACITIES[capacity], label=format_capacity(capacity), **style)
    axes.set(xticks=[], yticks=[], title=f"{images.classes} classes of {data.name} at several capacities")
    axes.legend(frameon=False)
    save_figure(figure, folder, "tsne")


def few_classes(images: ImageSet) -> ImageSet:
    """The images of `CLASSES` labels, evenly chosen, relabelled from 0."""
    present = np.unique(images.labels[images.labels >= 0])
    chosen = present[np.linspace(0, len(present) - 1, min(CLASSES, len(present)), dtype=np.int64)]
    kept = images.take(np.flatnonzero(np.isin(images.labels, chosen)))
    names = [images.label_names[label] for label in chosen]
    return ImageSet(kept.pixels, np.searchsorted(chosen, kept.labels), names, kept.ids)
