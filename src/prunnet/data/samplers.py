"""Batches of indices: shuffled, or class-balanced P×K.

Every sampler deals *global* batches, which are a function of (seed, epoch) alone. A rank takes its slice of each, so
two ranks see together, step by step, exactly what one rank would see.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

from prunnet.errors import DataError

Indices = npt.NDArray[np.int64]


class EpochSampler(Sampler[list[int]], ABC):
    """Deals batches, and knows where it is: `state_dict()` mid-epoch, loaded elsewhere, continues with the next batch.

    Running to the end moves on to the next epoch.
    """

    def __init__(self, batch_size: int, seed: int = 0, rank: int = 0, world_size: int = 1) -> None:
        if batch_size < 1 or batch_size % world_size:
            raise DataError(f"batch size {batch_size} cannot be dealt evenly to {world_size} ranks")
        if not 0 <= rank < world_size:
            raise DataError(f"rank {rank} is outside 0 … {world_size - 1}")
        self.batch_size, self.seed, self.rank, self.world_size = batch_size, seed, rank, world_size
        self.epoch = 0
        self.position = 0

    @abstractmethod
    def __len__(self) -> int:
        """Batches in an epoch."""

    @abstractmethod
    def _global_batches(self, rng: np.random.Generator) -> Iterator[Indices]:
        """One epoch of batches for all ranks together."""

    def __iter__(self) -> Iterator[list[int]]:
        for pairs in self.seeded():
            yield [index for index, _ in pairs]

    def seeded(self) -> Iterator[list[tuple[int, int]]]:
        """The same batches, with a seed beside each index.

        Augmentation drawn from that seed depends on neither ranks, workers nor what was drawn before: a resumed or
        distributed run sees the same pixels.
        """
        epoch, start = self.epoch, self.position
        for step, batch in enumerate(self._global_batches(np.random.default_rng([self.seed, epoch]))):
            if step < start:
                continue
            self.epoch, self.position = epoch, step + 1
            seeds = np.random.default_rng([self.seed, epoch, step]).integers(2**63, size=len(batch))
            share = len(batch) // self.world_size
            mine = slice(self.rank * share, (self.rank + 1) * share)
            yield list(zip(batch[mine].tolist(), seeds[mine].tolist(), strict=True))
        self.epoch, self.position = epoch + 1, 0

    def state_dict(self) -> dict[str, Any]:
        """Where the sampler is, as plain numbers."""
        return {"epoch": self.epoch, "position": self.position, "seed": self.seed, "batch_size": self.batch_size}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another sampler was; it must have dealt the same batches."""
        for key, mine in (("seed", self.seed), ("batch_size", self.batch_size)):
            if state[key] != mine:
                raise DataError(f"cannot continue a sampler with {key} {state[key]} from one with {key} {mine}")
        self.epoch, self.position = int(state["epoch"]), int(state["position"])


class ShuffledSampler(EpochSampler):
    """Every image once per epoch, in an order of its own for each epoch.

    `batch_size` counts the images of all ranks together. `drop_last` leaves out the images that do not fill a batch.
    """

    def __init__(
        self,
        labels_or_len: Sized | int,
        batch_size: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = True,
    ) -> None:
        super().__init__(batch_size, seed, rank, world_size)
        self.length = labels_or_len if isinstance(labels_or_len, int) else len(labels_or_len)
        self.drop_last = drop_last
        if not drop_last and world_size > 1:
            raise DataError("drop_last=False leaves ranks with unequal batches; use drop_last=True with several ranks")
        if len(self) == 0:
            raise DataError(f"{self.length} images do not fill one batch of {batch_size}; lower the batch size")

    def __len__(self) -> int:
        return self.length // self.batch_size if self.drop_last else -(-self.length // self.batch_size)

    def _global_batches(self, rng: np.random.Generator) -> Iterator[Indices]:
        order = rng.permutation(self.length)
        for step in range(len(self)):
            yield order[step * self.batch_size : (step + 1) * self.batch_size]


class ClassBalancedSampler(EpochSampler):
    """Batches of P classes with K images each (P×K), as losses on pairs need them.

    Classes are dealt in turn, whatever their size, and so are the images within a class; a class of fewer than K images
    repeats some. An epoch has as many batches as the images would fill. Unlabelled images are left out.
    """

    def __init__(
        self,
        labels: Sequence[int] | npt.NDArray[Any],
        classes_per_batch: int,
        images_per_class: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(classes_per_batch * images_per_class, seed, rank, world_size)
        self.classes_per_batch, self.images_per_class = classes_per_batch, images_per_class
        array = np.asarray(labels, dtype=np.int64)
        labelled = np.flatnonzero(array >= 0)
        by_class = labelled[np.argsort(array[labelled], kind="stable")]
        self.members = np.split(by_class, np.flatnonzero(np.diff(array[by_class])) + 1) if len(by_class) else []
        self.length = len(labelled)
        if len(self.members) < classes_per_batch:
            raise DataError(f"{classes_per_batch} classes per batch, but there are only {len(self.members)}")

    def __len__(self) -> int:
        return max(1, self.length // self.batch_size)

    def _global_batches(self, rng: np.random.Generator) -> Iterator[Indices]:
        classes: list[int] = []
        waiting: dict[int, list[int]] = {}
        for _ in range(len(self)):
            if (
                len(classes) < self.classes_per_batch
            ):  # the few left over wait for another epoch: a batch needs P distinct
                classes = rng.permutation(len(self.members)).tolist()
            batch: list[int] = []
            for _ in range(self.classes_per_batch):
                label = classes.pop()
                queue = waiting.setdefault(label, [])
                while len(queue) < self.images_per_class:
                    fresh = rng.permutation(self.members[label]).tolist()
                    fresh.sort(key=lambda index, left=frozenset(queue): index not in left)  # those still queued go last
                    queue[:0] = fresh
                batch += [queue.pop() for _ in range(self.images_per_class)]
            yield np.asarray(batch, dtype=np.int64)
