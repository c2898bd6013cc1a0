"""Vectors that lie as the embeddings of photographs do, as many as are wanted.

    python benchmarks/_embeddings.py                                                  # what is generated
    python benchmarks/_embeddings.py --run RUN --data DATA/grocery/open_classes.csv   # beside what it imitates

A vector is the sum of where its class, its scene (photographs of one shelf, one after the other) and itself lie, each
normal with variances that fall along the same directions, and then of length 1. A small member embeds an image at some
distance from where the dense one does. Sizes and falls were fitted to a MobileNetV2 with 256 dimensions, trained on 54
classes of the Grocery Store Dataset at 64 × 64 pixels (10 epochs, `capacities="any"`, seed 0), and its embeddings of
1,927 photographs of 27 other classes. Cosines, and effective dimensions (the participation ratio of the variances):

    cosine                                            real   generated
    nearest other image, first tenth                  0.824  0.865
    nearest other image, median                       0.917  0.913
    nearest other image, last tenth                   0.966  0.944
    tenth nearest, median                             0.808  0.756
    two of a class, mean                              0.574  0.572
    two of a class, deviation                         0.229  0.186
    two of different classes, mean                    0.004  0.001
    two of different classes, deviation               0.212  0.234
    share whose nearest is of their class             0.917  1.000
    effective dimensions                             16.979 14.659
    effective dimensions within classes              26.881 22.061
    an image by both members (100 % and 20 %), mean   0.687  0.669
    nearest other to the small member's, median       0.762  0.763
    tenth nearest to the small member's, median       0.693  0.663

The classes overlap less than the real ones do. A larger gallery has more classes, not larger ones.
"""

import argparse
import warnings
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

DIMENSIONS = 256
IMAGES_PER_CLASS, IMAGES_PER_SCENE = 71, 9
SMALL = 0.2
"""The capacity of the small member."""


def _falling(size: float, flat: float, power: float) -> Tensor:
    """Deviations in each direction, together `size`: about the same in the first `flat`, then falling."""
    variances = (1 + torch.arange(DIMENSIONS) / flat) ** -power
    return size * (variances / variances.sum()).sqrt()


class Structure:
    """Where the embeddings of `count` images lie."""

    def __init__(self, count: int) -> None:
        generator = torch.Generator().manual_seed(0)
        classes = max(2, count // IMAGES_PER_CLASS)
        self._of_images = _falling(0.45, 12, 1.8)
        self._of_members = _falling(1.2, 10, 8.5)
        centres = torch.randn(classes, DIMENSIONS, generator=generator) * _falling(1.0, 7.5, 2.25)
        self._classes = torch.arange(classes).repeat_interleave(round(IMAGES_PER_CLASS / IMAGES_PER_SCENE))
        scenes = torch.randn(len(self._classes), DIMENSIONS, generator=generator)
        self._scenes = centres[self._classes] + scenes * _falling(0.78, 6.5, 2.0)
        self._rotation = torch.linalg.qr(torch.randn(DIMENSIONS, DIMENSIONS, generator=generator)).Q

    def images(self, count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
        """By the dense member and by the small one, and their classes."""
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randint(len(self._scenes), (count,), generator=generator)
        own = torch.randn(count, DIMENSIONS, generator=generator) * self._of_images
        dense = F.normalize(self._scenes[chosen] + own)
        apart = torch.randn(count, DIMENSIONS, generator=generator) * self._of_members
        return dense @ self._rotation, F.normalize(dense + apart) @ self._rotation, self._classes[chosen]

    def vectors(self, count: int, seed: int) -> Tensor:
        return self.images(count, seed)[0]

    def queries(self, count: int, seed: int) -> Tensor:
        return self.images(count, seed)[1]


def statistics(dense: Tensor, small: Tensor, labels: Tensor) -> Mapping[str, float]:
    """How a few thousand images lie to each other."""
    similar, apart = dense @ dense.T, ~torch.eye(len(dense), dtype=torch.bool)
    same = labels[:, None] == labels[None]
    nearest = similar.masked_fill(~apart, -1).topk(10, dim=1)
    asked = (small @ dense.T).masked_fill(~apart, -1).topk(10, dim=1)
    _, numbers = labels.unique(return_inverse=True)
    centres = torch.zeros(int(numbers.max()) + 1, DIMENSIONS).index_add_(0, numbers, dense)
    centres /= numbers.bincount()[:, None]
    return {
        "nearest other image, first tenth": float(nearest.values[:, 0].quantile(0.1)),
        "nearest other image, median": float(nearest.values[:, 0].median()),
        "nearest other image, last tenth": float(nearest.values[:, 0].quantile(0.9)),
        "tenth nearest, median": float(nearest.values[:, 9].median()),
        "two of a class, mean": float(similar[same & apart].mean()),
        "two of a class, deviation": float(similar[same & apart].std()),
        "two of different classes, mean": float(similar[~same].mean()),
        "two of different classes, deviation": float(similar[~same].std()),
        "share whose nearest is of their class": float((labels[nearest.indices[:, 0]] == labels).float().mean()),
        "effective dimensions": _effective(dense - dense.mean(0)),
        "effective dimensions within classes": _effective(dense - centres[numbers]),
        "an image by both members, mean": float((dense * small).sum(1).mean()),
        "nearest other image to the small member's, median": float(asked.values[:, 0].median()),
        "tenth nearest to the small member's, median": float(asked.values[:, 9].median()),
    }


def _effective(centred: Tensor) -> float:
    variances = torch.linalg.eigvalsh(centred.T @ centred)
    return float(variances.sum().square() / variances.square().sum())


def embedded(run: str, data: str) -> tuple[Tensor, Tensor, Tensor]:
    import prunnet
    from prunnet.evaluation import embed_images

    net, images = prunnet.Run(run).network, prunnet.load_data(data)
    parts = (images.query, images.gallery)
    dense, small = (
        torch.cat([embed_images(net.subnetwork(capacity), part).vectors for part in parts]) for capacity in (1.0, SMALL)
    )
    return dense, small, torch.cat([torch.as_tensor(part.labels) for part in parts])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", help="whose embeddings of photographs are measured too")
    parser.add_argument("--data", help="their manifest")
    parser.add_argument("--count", type=int, default=1927, help="how many vectors to generate")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    made = statistics(*Structure(arguments.count).images(arguments.count, seed=1))
    real = statistics(*embedded(arguments.run, arguments.data)) if arguments.run else {}
    width = max(map(len, made))
    for name, value in made.items():
        print(f"{name:<{width}}  {f'{real[name]:7.3f}' if real else ''} {value:7.3f}")


if __name__ == "__main__":
    main()
