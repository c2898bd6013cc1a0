"""Embeds a set of images by one subnetwork, once: what is on disk already is read instead."""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from prunnet._checked import load_tensors, save_tensors
from prunnet._files import write_atomically
from prunnet._progress import track
from prunnet.data import ImageSet, OnError, make_loader, read_ahead
from prunnet.errors import DamagedError, EvaluationError, UnreadableImageError
from prunnet.network import Embeddings, Preprocessing, Subnetwork
from prunnet.network.capacity import format_capacity

SAMPLED_IMAGES = 8  # enough to notice that the same names stand for other pictures


class Encoder(Protocol):
    """What maps preprocessed images to embeddings: a subnetwork, or one in another runtime."""

    @property
    def capacity(self) -> float: ...
    @property
    def family_id(self) -> str: ...
    @property
    def preprocessing(self) -> Preprocessing: ...
    def __call__(self, images: Tensor, /) -> Tensor: ...


class Embedded(NamedTuple):
    """A row for every image, in order; of zeros where the image could not be read."""

    embeddings: Embeddings
    readable: npt.NDArray[np.bool_]


class EmbeddedBatch(NamedTuple):
    """The images that could be read of a batch, by index, and why the others could not."""

    indices: Tensor
    vectors: Tensor
    unreadable: tuple[str, ...]


@torch.no_grad()
def embedded_batches(
    encoder: Encoder,
    images: ImageSet,
    *,
    batch_size: int = 64,
    workers: int = 0,
    description: str | None = "",
    on_error: OnError = "skip",
) -> Iterator[EmbeddedBatch]:
    """Embed images in order, a batch at a time, and show how far it is, unless `description` is None.

    The images of the next batch are read meanwhile.
    """
    transform = encoder.preprocessing.transform()
    loader = make_loader(images, transform, batch_size, workers=workers, on_error=on_error)
    parameters = encoder.parameters() if isinstance(encoder, nn.Module) else iter(())
    device = next((parameter.device for parameter in parameters), torch.device("cpu"))
    batches = read_ahead(loader)
    if description is not None:
        batches = track(batches, f"{description} {format_capacity(encoder.capacity)}".strip(), len(loader))
    for batch in batches:
        vectors = encoder(batch.images.to(device)).float().cpu() if len(batch.images) else torch.empty(0)
        yield EmbeddedBatch(batch.indices, vectors, batch.unreadable)


def embed_images(
    encoder: Encoder,
    images: ImageSet,
    *,
    batch_size: int = 64,
    workers: int = 0,
    store: Path | None = None,
    description: str = "",
) -> Embeddings:
    """Embed every image in order. With a `store` folder the result is kept there, and found there the next time."""
    return embed_readable(
        encoder,
        images,
        batch_size=batch_size,
        workers=workers,
        store=store,
        description=description,
        on_error="raise",
    ).embeddings


@torch.no_grad()
def embed_readable(
    encoder: Encoder,
    images: ImageSet,
    *,
    batch_size: int = 64,
    workers: int = 0,
    store: Path | None = None,
    description: str = "",
    on_error: OnError = "skip",
) -> Embedded:
    """Embed the images that can be read; only what is whole is kept in `store`."""
    capacity, family_id = encoder.capacity, encoder.family_id
    readable = np.ones(len(images), dtype=np.bool_)
    file = None
    if store is not None and isinstance(encoder, Subnetwork):
        with suppress(UnreadableImageError):  # whole it will not be
            file = store / f"{family_id}-{capacity:.6g}-{fingerprint(encoder, images)}.safetensors"
        if file is not None and (kept := _read(file, len(images))) is not None:
            return Embedded(Embeddings(kept, family_id, capacity), readable)
    read, parts = [], []
    for batch in embedded_batches(
        encoder, images, batch_size=batch_size, workers=workers, description=description, on_error=on_error
    ):
        if len(batch.vectors):
            read.append(batch.indices)
            parts.append(batch.vectors)
    if not parts:
        raise EvaluationError(f"none of the {len(images)} images can be read, {images.ids[0]} among them")
    vectors = torch.cat(parts)
    if len(vectors) < len(images):
        indices = torch.cat(read)
        readable[:] = False
        readable[indices.numpy()] = True
        vectors = vectors.new_zeros(len(images), vectors.shape[1]).index_copy_(0, indices, vectors)
    elif file is not None:
        _write(file, vectors)
    return Embedded(Embeddings(vectors, family_id, capacity), readable)


def fingerprint(subnetwork: Subnetwork, images: ImageSet) -> str:
    """Of everything the embeddings follow from: weights and statistics, preprocessing, names and some pixels."""
    digest = hashlib.blake2b(digest_size=12)
    for part in _identity(subnetwork, images):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _identity(subnetwork: Subnetwork, images: ImageSet) -> Iterator[bytes]:
    yield repr(subnetwork.preprocessing).encode()
    for name, tensor in sorted(subnetwork.state_dict().items()):
        yield name.encode()
        yield tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    yield "\0".join(images.ids).encode()
    for index in np.unique(np.linspace(0, len(images) - 1, SAMPLED_IMAGES, dtype=np.int64)):
        image = images.image(int(index))
        yield repr((image.mode, image.size)).encode()
        yield image.tobytes()


def _read(file: Path, expected: int) -> Tensor | None:
    try:
        tensors, _ = load_tensors(file)
    except DamagedError:
        return None  # absent or damaged: embedding again is the remedy
    vectors = tensors.get("vectors")
    return vectors if vectors is not None and vectors.ndim == 2 and len(vectors) == expected else None


def _write(file: Path, vectors: Tensor) -> None:
    try:
        with write_atomically(file) as temporary:
            save_tensors({"vectors": vectors}, temporary)
    except OSError as error:
        raise EvaluationError(f"{file}: embeddings cannot be kept there ({error.strerror})") from None
