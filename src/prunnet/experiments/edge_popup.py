"""The preliminary study (Appendix A, Figure 2): edge-popup on Conv-8, one-shot against iterative pruning.

Weights are random and stay what they are; only scores learn, and with them which connections are kept. One-shot pruning
searches the subnetwork of each capacity in the whole network, iterative pruning inside the next larger one it found.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.func import functional_call

from prunnet._files import write_atomically
from prunnet.data import ImageSet, RetrievalData
from prunnet.errors import PrunNetError
from prunnet.network.capacity import check_capacities
from prunnet.network.ranking import Masks, rank
from prunnet.network.selection import Scores

Strategy = Literal["one-shot", "one-shot, as long", "iterative"]
STRATEGIES: tuple[Strategy, ...] = ("one-shot", "one-shot, as long", "iterative")
"""The second searches as many epochs as iterative pruning has spent by then: what longer training alone would give."""


SMALLEST_IMAGE = 16  # four poolings


@dataclass(frozen=True)
class Study:
    """The setting of a search. Images are resized to `size`, if it is given; `data_options` made the data."""

    capacities: Sequence[float] = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
    epochs: int = 10
    batch_size: int = 128
    lr: float = 0.1
    weight_decay: float = 5e-4
    width: float = 1.0
    size: int | None = None
    data_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_capacities(self.capacities)
        for name in ("epochs", "batch_size", "lr", "width"):
            if not getattr(self, name) > 0:
                raise PrunNetError(f"edge-popup: {name} must be positive; found {getattr(self, name)}")


class Conv8(nn.Module):
    """Eight convolutions, in pairs of 64 to 512 filters with pooling after each pair, and three linear layers."""

    def __init__(self, image: tuple[int, int, int], classes: int, width: float = 1.0) -> None:
        super().__init__()
        channels, height, breadth = image
        if min(height, breadth) < SMALLEST_IMAGE:
            raise PrunNetError(
                f"Conv-8 needs images of {SMALLEST_IMAGE} pixels or more; found {breadth} × {height} (--set size=32)"
            )
        layers: list[nn.Module] = []
        for filters in (round(width * count) for count in (64, 128, 256, 512)):
            for inputs in (channels, filters):
                layers += [nn.Conv2d(inputs, filters, 3, padding=1, bias=False), nn.ReLU()]
            layers.append(nn.MaxPool2d(2))
            channels = filters
        features, hidden = channels * (height // 16) * (breadth // 16), round(width * 256)
        layers.append(nn.Flatten())
        for inputs in (features, hidden):
            layers += [nn.Linear(inputs, hidden, bias=False), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden, classes, bias=False))
        for weight in self.parameters():
            fan_in = weight[0].numel()
            weight.data = torch.randn_like(weight).sign() * math.sqrt(2 / fan_in)
            weight.requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


class ScoreSearch:
    """Learns scores for the frozen weights of `network`."""

    def __init__(self, network: Conv8, study: Study, seed: int) -> None:
        self.network, self.study = network, study
        self.weights = dict(network.named_parameters())
        self.scores = Scores(self.weights)
        self.generator = torch.Generator().manual_seed(seed)

    def find(self, images: Tensor, labels: Tensor, capacity: float, epochs: int, inside: Masks | None = None) -> Masks:
        """The subnetwork at `capacity`, among the connections `inside` if given."""
        self._forget_outside(inside)
        optimiser = torch.optim.SGD(
            self.scores.parameters(), lr=self.study.lr, momentum=0.9, weight_decay=self.study.weight_decay
        )
        batches = math.ceil(len(labels) / self.study.batch_size)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * batches)
        for _ in range(epochs):
            order = torch.randperm(len(labels), generator=self.generator)
            for batch in torch.split(order, self.study.batch_size):
                self._differentiate(images[batch], labels[batch], capacity)
                optimiser.step()
                self._forget_outside(inside)
                schedule.step()
        return self.masks(capacity)

    def masks(self, capacity: float) -> Masks:
        masks: Masks = rank(dict(self.scores.items()), (capacity,))[0]
        return masks

    def save(self, file: Path) -> None:
        """Everything that the next search starts from."""
        state = {name: tensor.cpu() for name, tensor in self.scores.state_dict().items()}
        with write_atomically(file) as temporary:
            save_file({**state, "generator": self.generator.get_state()}, temporary)

    def load(self, file: Path) -> None:
        """Go on from what `save` wrote."""
        state = load_file(file)
        self.generator.set_state(state.pop("generator"))
        self.scores.load_state_dict(state)

    def _differentiate(self, images: Tensor, labels: Tensor, capacity: float) -> None:
        """∂L/∂s = w·E straight through the choice, for all connections: those left out can come back."""
        kept = effective(self.weights, self.masks(capacity), capacity)
        leaves = {name: weight.requires_grad_() for name, weight in kept.items()}
        loss = F.cross_entropy(functional_call(self.network, leaves, (images,)), labels)
        gradients = torch.autograd.grad(loss, list(leaves.values()))
        for (name, score), gradient in zip(self.scores.items(), gradients, strict=True):
            score.grad = gradient * self.weights[name] * score.detach().sign()

    @torch.no_grad()
    def _forget_outside(self, inside: Masks | None) -> None:
        """A connection outside has the lowest rank, |s| = 0, and keeps it."""
        for name, mask in (inside or {}).items():
            self.scores[name].mul_(mask)


def effective(weights: Mapping[str, Tensor], masks: Masks, capacity: float) -> dict[str, Tensor]:
    """The kept weights, scaled by 1/√c so that activations keep their size."""
    return {name: weight.detach() * masks[name] / math.sqrt(capacity) for name, weight in weights.items()}


@torch.no_grad()
def accuracy(network: Conv8, masks: Masks, capacity: float, images: Tensor, labels: Tensor) -> float:
    """Share of `images` that the subnetwork recognises."""
    weights = effective(dict(network.named_parameters()), masks, capacity)
    predicted = torch.cat([functional_call(network, weights, (part,)).argmax(1) for part in torch.split(images, 500)])
    return float((predicted == labels).float().mean())


Split = tuple[Tensor, Tensor, Tensor, Tensor]


def run_strategy(
    split: Split,
    study: Study,
    strategy: Strategy,
    seed: int,
    *,
    known: Collection[float] = (),
    state: Path | None = None,
) -> Iterator[tuple[float, float]]:
    """(capacity, accuracy on the test images) from the largest capacity down.

    Capacities in `known` were searched before. Iterative pruning goes on from the scores it has left in the folder
    `state` for the last of them.
    """
    iterative = strategy == "iterative"
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    images, labels, test_images, test_labels = (part.to(device) for part in split)
    torch.manual_seed(seed)
    network = Conv8(tuple(images.shape[1:]), int(labels.max()) + 1, study.width)  # type: ignore[arg-type]
    scores = Scores(dict(network.named_parameters())).state_dict()
    network.to(device)
    search, masks, left = ScoreSearch(network, study, seed), None, None
    for stage, capacity in enumerate(sorted(study.capacities, reverse=True), start=1):
        file = None if state is None or not iterative else state / f"{capacity:g}.safetensors"
        if capacity in known:
            if file is not None and file.is_file():
                search.load(file)
                masks, left = search.masks(capacity), file
            continue
        if not iterative:
            search = ScoreSearch(network, study, seed)
        if not iterative or stage == 1:
            search.scores.load_state_dict(scores)  # all begin alike
        epochs = study.epochs * (stage if strategy == "one-shot, as long" else 1)
        masks = search.find(images, labels, capacity, epochs, masks if iterative else None)
        if file is not None:
            search.save(file)
        yield capacity, accuracy(network, masks, capacity, test_images, test_labels)
        if left is not None:
            left.unlink()
        left = file


def classification_split(data: RetrievalData, size: int | None = None) -> Split:
    """Training and test images of the same classes.

    Test images are those asked and searched, where they show the training classes (CIFAR-10); otherwise (glyphs, whose
    tests show unseen characters) every fourth training image of each class is kept apart.
    """
    assert data.train is not None
    if data.gallery.label_names == data.train.label_names and data.query is data.gallery:
        train, test = data.train, data.gallery
    else:
        order = np.argsort(data.train.labels, kind="stable")
        position = np.empty(len(order), dtype=np.int64)
        for label in range(data.train.classes):
            members = order[data.train.labels[order] == label]
            position[members] = np.arange(len(members))
        train = data.train.take(np.flatnonzero(position % 4 != 3))
        test = data.train.take(np.flatnonzero(position % 4 == 3))
    return (*_tensors(train, size), *_tensors(test, size))


def _tensors(images: ImageSet, size: int | None) -> tuple[Tensor, Tensor]:
    pixels = np.stack([np.asarray(images.image(index)) for index in range(len(images))])
    tensors = torch.from_numpy(pixels).float().div(255)
    tensors = tensors[:, None] if tensors.ndim == 3 else tensors.permute(0, 3, 1, 2)
    if size is not None and tensors.shape[-1] != size:
        tensors = F.interpolate(tensors, size, mode="bilinear", antialias=True, align_corners=False)
    return (tensors - tensors.mean()) / tensors.std(), torch.as_tensor(images.labels)
