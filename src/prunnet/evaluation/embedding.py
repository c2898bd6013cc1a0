"""Embeds a set of images by one subnetwork, once: what is on disk already is read instead."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from prunnet._files import write_atomically
from prunnet._progress import track
from prunnet.data import ImageSet, make_loader
from prunnet.errors import EvaluationError
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


@torch.no_grad()
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
    capacity, family_id, preprocessing = encoder.capacity, encoder.family_id, encoder.preprocessing
    file = None
    if store is not None and isinstance(encoder, Subnetwork):
        file = store / f"{family_id}-{capacity:.6g}-{fingerprint(encoder, images)}.safetensors"
        if (vectors := _read(file, len(images))) is not None:
            return Embeddings(vectors, family_id, capacity)
    loader = make_loader(images, preprocessing.transform(), batch_size, workers=workers)
    parameters = encoder.parameters() if isinstance(encoder, nn.Module) else iter(())
    device = next((parameter.device for parameter in parameters), torch.device("cpu"))
    text = f"{description} {format_capacity(capacity)}".strip()
    vectors = torch.cat([encoder(batch.images.to(device)).float().cpu() for batch in track(loader, text)])
    if file is not None:
        _write(file, vectors)
    return Embeddings(vectors, family_id, capacity)


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
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        vectors = load_file(file)["vectors"]
    except (OSError, SafetensorError, KeyError):
        return None  # absent or damaged: embedding again is the remedy
    return vectors if vectors.ndim == 2 and len(vectors) == expected else None


def _write(file: Path, vectors: Tensor) -> None:
    from safetensors.torch import save_file

    try:
        with write_atomically(file) as temporary:
            save_file({"vectors": vectors}, temporary)
    except OSError as error:
        raise EvaluationError(f"{file}: embeddings cannot be kept there ({error.strerror})") from None
