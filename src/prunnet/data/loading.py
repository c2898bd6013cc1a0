"""From an `ImageSet` to batches of tensors: augmented for training, or as `Preprocessing.transform` has it."""

import inspect
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from prunnet._pictures import ToChannels
from prunnet._torchvision import require_torchvision
from prunnet.data.images import ImageSet
from prunnet.data.retrieval import RetrievalData
from prunnet.data.samplers import EpochSampler, ShuffledSampler
from prunnet.errors import DataError, UnreadableImageError

OnError = Literal["raise", "skip"]
Transform = Callable[[Image.Image], Tensor]


class Preprocessing(Protocol):
    """What a network expects of its input (`prunnet.network.Preprocessing` is one)."""

    @property
    def input_size(self) -> tuple[int, int, int]: ...
    @property
    def mean(self) -> tuple[float, ...]: ...
    @property
    def std(self) -> tuple[float, ...]: ...
    @property
    def interpolation(self) -> str: ...
    def transform(self) -> Transform: ...


class Unreadable(NamedTuple):
    """Stands in for an image that could not be read."""

    message: str


class Batch(NamedTuple):
    """Images, their labels and their indices in the `ImageSet`; and what was left out because it could not be read."""

    images: Tensor
    labels: Tensor
    indices: Tensor
    unreadable: tuple[str, ...] = ()


Item = tuple[Tensor, int, int]


class ImageDataset(Dataset[Item | Unreadable]):
    """(tensor, label, index) for each image of `image_set`.

    An unreadable image raises `UnreadableImageError`, or with `on_error="skip"` yields an `Unreadable` that `collate`
    turns into an entry of the batch's `unreadable`; the record thus reaches the trainer from any worker process.
    """

    def __init__(self, image_set: ImageSet, transform: Transform, on_error: OnError = "raise") -> None:
        if on_error not in ("raise", "skip"):
            raise DataError(f"on_error must be 'raise' or 'skip', not {on_error!r}")
        self.image_set, self.transform, self.on_error = image_set, transform, on_error

    def __len__(self) -> int:
        return len(self.image_set)

    def __getitem__(self, key: int | tuple[int, int]) -> Item | Unreadable:
        """The item at an index; a pair (index, seed) also fixes what a random transform does to it."""
        index, seed = key if isinstance(key, tuple) else (int(key), None)
        try:
            image = self.image_set.image(index)
        except UnreadableImageError as error:
            if self.on_error == "raise":
                raise
            return Unreadable(str(error))
        tensor = self.transform(image) if seed is None else _with_seed(self.transform, image, seed)
        return tensor, int(self.image_set.labels[index]), index


def _with_seed(transform: Transform, image: Any, seed: int) -> Tensor:
    """timm and torchvision draw from the global generators; these are lent, seeded, and given back as they were."""
    generator = torch.default_generator
    torch_state, python_state = generator.get_state(), random.getstate()
    try:
        generator.manual_seed(seed)
        random.seed(seed)
        return transform(image)
    finally:
        generator.set_state(torch_state)
        random.setstate(python_state)


def collate(items: Sequence[Item | Unreadable]) -> Batch:
    """Stack what could be read, channels last, as convolutions are fastest; a batch of nothing has zero images."""
    read = [item for item in items if not isinstance(item, Unreadable)]
    unreadable = tuple(item.message for item in items if isinstance(item, Unreadable))
    images = torch.stack([tensor for tensor, _, _ in read]) if read else torch.empty(0)
    if images.ndim == 4:
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.tensor([label for _, label, _ in read], dtype=torch.int64)
    indices = torch.tensor([index for _, _, index in read], dtype=torch.int64)
    return Batch(images, labels, indices, unreadable)


class Loader(DataLoader[Any]):
    """A DataLoader whose sampler stands, at every batch handed out, where a resumed run has to continue.

    Workers draw batches ahead of what is consumed; without this the sampler's position would be theirs.
    """

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        sampler = self.batch_sampler.sampler if isinstance(self.batch_sampler, _Seeded) else None
        if sampler is None:
            yield from super().__iter__()
            return
        epoch, start = sampler.epoch, sampler.position
        for position, batch in enumerate(super().__iter__(), start + 1):
            sampler.epoch, sampler.position = epoch, position
            yield batch
        sampler.epoch, sampler.position = epoch + 1, 0


class _Seeded:
    """What the loader draws from: (index, seed) pairs of a sampler."""

    def __init__(self, sampler: EpochSampler) -> None:
        self.sampler = sampler

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        return self.sampler.seeded()


def make_loader(
    image_set: ImageSet,
    transform: Transform,
    batch_size: int = 64,
    sampler: EpochSampler | None = None,
    workers: int = 0,
    on_error: OnError = "raise",
    pin_memory: bool = False,
) -> Loader:
    """Batches of `image_set`: as `sampler` deals them, or in order, `batch_size` at a time, when there is none."""
    options: dict[str, Any] = {"num_workers": workers, "pin_memory": pin_memory, "collate_fn": collate}
    if workers:
        options["persistent_workers"] = True
    dataset = ImageDataset(image_set, transform, on_error)
    if sampler is None:
        return Loader(dataset, batch_size=batch_size, **options)
    return Loader(dataset, batch_sampler=_Seeded(sampler), **options)


def read_ahead(loader: Loader, batches: int = 2) -> Iterator[Any]:
    """What `loader` gives, read by a thread while the caller is at work, unless it has processes that do so."""
    if loader.num_workers:
        yield from loader
        return
    source = iter(loader)
    with ThreadPoolExecutor(1, "reading") as thread:
        coming = deque(thread.submit(next, source, None) for _ in range(batches))
        while (batch := coming.popleft().result()) is not None:
            coming.append(thread.submit(next, source, None))
            yield batch


def training_images(
    data: RetrievalData, preprocessing: Preprocessing, batch_size: int = 64, workers: int = 0
) -> Loader:
    """What batch norm is adapted and int8 calibrated on: training images, shuffled, preprocessed as for inference."""
    if data.train is None:
        raise DataError(f"{data.name} has no training images")
    return shuffled_loader(data.train, preprocessing, batch_size, workers)


def shuffled_loader(
    image_set: ImageSet,
    preprocessing: Preprocessing,
    batch_size: int = 64,
    workers: int = 0,
    on_error: OnError = "raise",
) -> Loader:
    """Batches as batch-norm adaptation wants them: preprocessed as for inference, in an order that mixes the classes.

    Batches of one class vary less than the data do, and statistics are averaged over batches.
    """
    sampler = ShuffledSampler(len(image_set), batch_size, drop_last=False)
    return make_loader(image_set, preprocessing.transform(), sampler=sampler, workers=workers, on_error=on_error)


def check_augmentation(options: Iterable[str]) -> None:
    """Refuse what `train_transform` does not know."""
    known = list(inspect.signature(train_transform).parameters)[1:]
    if unknown := [option for option in options if option not in known]:
        raise DataError(f"augmentation has no option {unknown[0]!r}; its options are {', '.join(known)}")


def train_transform(
    preprocessing: Preprocessing,
    scale: tuple[float, float] = (0.5, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
    hflip: float = 0.5,
    color_jitter: float = 0.0,
    random_erasing: float = 0.0,
) -> Transform:
    """Augmentation by timm: random crop and flip, then normalisation as `preprocessing` says.

    `scale` and `ratio` bound the area and aspect of the crop; `hflip` and `random_erasing` are probabilities.
    Classification crops down to 8 % of the image; retrieval has to keep the instance recognisable, hence half of it
    by default.
    """
    to_channels = ToChannels(preprocessing.input_size[0])
    require_torchvision()
    from timm.data import create_transform
    from torchvision.transforms import Compose

    augment_and_normalise = create_transform(
        input_size=tuple(preprocessing.input_size),
        mean=tuple(preprocessing.mean),
        std=tuple(preprocessing.std),
        interpolation=preprocessing.interpolation,
        is_training=True,
        scale=scale,
        ratio=ratio,
        hflip=hflip,
        color_jitter=color_jitter or None,
        re_prob=random_erasing,
    )
    composed: Transform = Compose([to_channels, *augment_and_normalise.transforms])
    return composed
