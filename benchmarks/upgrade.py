"""What a gallery answers while it is upgraded, fifth by fifth, to a family that was trained compatible with its own.

    prunnet train --preset omniglot-small --root DATA/omniglot --out runs/a
    prunnet train --preset omniglot-small --root DATA/omniglot --set old=runs/a --set epochs=24 --out runs/b
    python benchmarks/upgrade.py runs/a runs/b --picture upgrade.svg

mAP over the whole ranking, through the gallery, of queries by the old dense network, the new one, and 10 % of it.
`new_in_old` and `new_in_new` are those of the new dense network before the first image was embedded again, and after
the last.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

import prunnet
from prunnet.evaluation import embed_images
from prunnet.search import VectorIndex, label_of, mean_average_precision
from prunnet.search.upgrading import begin

PARTS = 5


def measured(old: prunnet.Run, new: prunnet.Run, folder: Path) -> dict[str, list[float]]:
    """mAP (%) after each part, by who asks."""
    data = new.load_data()
    asking = {
        "old, 100 %": old.network.subnetwork(1.0),
        "new, 100 %": new.network.subnetwork(1.0),
        "new, 10 %": new.network.subnetwork(0.1),
    }
    queries = {name: embed_images(member, data.query) for name, member in asking.items()}
    labels = [label_of(data.query, place) for place in range(len(data.query))]
    prunnet.index(folder / "gallery", old.network.subnetwork(1.0), data.gallery)
    gallery = VectorIndex.open(folder / "gallery")
    begin(gallery, new, accept=True)
    order = torch.randperm(len(data.gallery), generator=torch.Generator().manual_seed(0))
    found: dict[str, list[float]] = {name: [] for name in queries}
    for places in (order[:0], *order.chunk(PARTS)):
        part = data.gallery.take(places.tolist())
        if len(part):
            metadata = [{"label": label_of(part, place) or ""} for place in range(len(part))]
            gallery.add(embed_images(asking["new, 100 %"], part), part.ids, metadata)
        for name, embedded in queries.items():
            value = mean_average_precision(gallery, embedded, labels, [None] * len(labels))
            assert value is not None
            found[name].append(100 * value)
        print(
            f"{100 * (len(found[name]) - 1) // PARTS} %:",
            {name: round(values[-1], 2) for name, values in found.items()},
        )
    return found


def draw(found: Mapping[str, Sequence[float]], data: str, file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for (name, values), style in zip(found.items(), ("o--", "s-", "^-"), strict=True):
        axes.plot([100 * part / PARTS for part in range(PARTS + 1)], values, style, label=f"queries: {name}")
    axes.set(xlabel="part of the gallery that is embedded again (%)", ylabel="mAP (%)", title=data, ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(file, format="svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--picture", type=Path, help="where to draw it, as .svg")
    told = parser.parse_args()
    new = prunnet.Run(told.new)
    with tempfile.TemporaryDirectory() as folder:
        found = measured(prunnet.Run(told.old), new, Path(folder))
    if told.picture is not None:
        draw(found, new.config.data, told.picture)
    print(f"old_in_old: {found['old, 100 %'][0]:.2f}")
    print(f"new_in_old: {found['new, 100 %'][0]:.2f}")
    print(f"new_in_new: {found['new, 100 %'][-1]:.2f}")


if __name__ == "__main__":
    main()
