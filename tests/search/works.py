"""What processes that are killed were doing to a gallery. Apart from the tests, so that they import nothing else."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.search.vectors import names, some

DIMENSION = 8


def prepare(folder: Path) -> None:
    from prunnet import VectorIndex

    index = VectorIndex.create(folder, some(1))
    index.add(some(6, seed=1), names(6), {"round": 0})
    index.remove(names(1))


def add(folder: Path) -> None:
    """Two that are there are replaced, two are new."""
    from prunnet import VectorIndex

    VectorIndex.open(folder).add(some(4, seed=2, capacity=0.2), names(4, 4), {"round": 1})


def remove(folder: Path) -> None:
    from prunnet import VectorIndex

    VectorIndex.open(folder).remove(names(2, 2))


def compact(folder: Path) -> None:
    from prunnet.search.folder import FolderIndex

    FolderIndex(folder).compact()


def merge(folder: Path) -> None:
    """So many small additions that they are merged on the way."""
    from prunnet.search.folder import FolderIndex

    index = FolderIndex(folder)
    for number in range(7):
        index.add(some(1, seed=number), names(1, 20 + number))


def steps(seed: int) -> Iterator[tuple[str, Any]]:
    """Calls without end, always the same for a seed: what is called, and with what."""
    from random import Random

    random, present, number = Random(seed), set[str](), 0
    while True:
        number += 1
        kind = random.choice(["add", "add", "add", "remove", "compact"])
        if kind == "add":
            ids = random.sample(names(40), random.randint(1, 12))
            present |= set(ids)
            yield "add", (number, ids)
        elif kind == "remove" and present:
            ids = random.sample(sorted(present), random.randint(1, min(5, len(present))))
            present -= set(ids)
            yield "remove", ids
        else:
            yield "compact", None


def apply(index: Any, kind: str, argument: Any) -> None:
    if kind == "add":
        number, ids = argument
        index.add(some(len(ids), seed=number, capacity=1 / (1 + number % 3)), ids, {"step": number})
    elif kind == "remove":
        index.remove(argument)
    else:
        index.compact()


BEGUN, ENDED = "begun", "ended"


def go_on(folder: Path, seed: int, done: int, sender: Any) -> None:
    """Make the calls after the first `done`, and tell when each begins and when it has ended."""
    from itertools import islice

    import torch

    from prunnet.search import folder as folder_module

    torch.set_num_threads(1)
    folder_module.EXACT_ROWS = MANY
    index = folder_module.FolderIndex(folder)
    for kind, argument in islice(steps(seed), done, None):
        sender.send((BEGUN, kind))
        apply(index, kind, argument)
        sender.send((ENDED, kind))


MANY = 20
"""Vectors, above which a gallery that is compacted gets an approximate index."""


def upgrade(folder: Path, run: Path, sender: Any = None) -> None:
    """Tell, if there is somebody to tell, when it begins and when it has ended."""
    import torch

    import prunnet
    from prunnet.search import indexing, open_encoder
    from prunnet.search import upgrade as upgrade_gallery
    from prunnet.search.folder import FolderIndex

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    indexing.ROWS_AT_ONCE = 3
    new, encoder = prunnet.Run(run), open_encoder(run)
    if sender is not None:
        sender.send((BEGUN, "upgrade"))
    upgrade_gallery(FolderIndex(folder), new, encoder, accept=True, batch_size=3)
    if sender is not None:
        sender.send((ENDED, "upgrade"))
