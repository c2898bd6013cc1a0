"""From images to a gallery: embed what is not there yet, and add it a batch at a time."""

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch

from prunnet._checked import file_digest
from prunnet._progress import track
from prunnet.data import ImageSet
from prunnet.errors import SearchError, UnreadableImageError
from prunnet.evaluation import EmbeddedBatch, Encoder, embedded_batches
from prunnet.network import Embeddings
from prunnet.search.columns import Metadata
from prunnet.search.guard import check_family
from prunnet.search.places import engine_for
from prunnet.search.protocol import Place, VectorIndex
from prunnet.search.sources import described

ROWS_AT_ONCE = 1024
SECONDS_AT_ONCE = 10.0
"""A killed call loses no more than the images embedded within this time."""
CONTENT = "content"
"""The key under which the digest of a picture is kept, where each is wanted once."""


class Engine(Protocol):
    """What embeds images in order: `embedded_batches` in this process, a `RayEngine` in many."""

    def __call__(
        self, encoder: Encoder, images: ImageSet, /, *, batch_size: int, workers: int, description: str
    ) -> Iterator[EmbeddedBatch]: ...


@dataclass
class Indexed:
    """What came of the images."""

    added: int = 0
    present: int = 0
    repeated: int = 0
    unreadable: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.added:,} added"]
        if self.present:
            parts.append(f"{self.present:,} there already")
        if self.repeated:
            parts.append(f"{self.repeated:,} the same picture as another")
        if self.unreadable:
            parts.append(f"{len(self.unreadable):,} cannot be read")
        return ", ".join(parts)


def index(
    place: Place,
    encoder: Encoder,
    images: ImageSet,
    *,
    prefix: str = "",
    replace: bool = False,
    unique: bool = False,
    batch_size: int = 64,
    workers: int = 0,
    engine: Engine = embedded_batches,
    made_with: str | None = None,
) -> Indexed:
    """Embed `images` into the gallery at `place`, a folder or the address of a store, which is made if it is not there.

    Called again after it was stopped, it goes on where it was: images whose ids are there are left as they are.

    encoder: any member of the gallery's family.
    prefix: put before the id of each image, which is its path within its folder.
    replace: embed images again whose ids are there.
    unique: leave out a picture that is there under another id.
    workers: processes that read images; without any a thread reads them, while the batch before is embedded.
    engine: a `prunnet.search.RayEngine` embeds on many machines.
    made_with: where the encoder is stored, which the gallery remembers for those who name none.
    """
    if not len(images):
        raise SearchError("there are no images to index")
    gallery = _opened(place, encoder, made_with)
    asked = ImageSet(images.pixels, images.labels, images.label_names, [prefix + id for id in images.ids])
    with gallery.writing():
        if not replace:
            asked = asked.take(_absent(gallery, asked))
        done, contents = Indexed(present=len(images) - len(asked)), list[str]()
        if unique:
            new = _each_once(gallery, asked)
            done.repeated, contents = len(asked) - len(new), list(new.values())
            asked = asked.take(list(new))

        def about(place: int) -> Metadata:
            return described(asked, place) | ({CONTENT: contents[place]} if unique else {})

        embed_into(gallery, encoder, asked, about, done, engine=engine, batch_size=batch_size, workers=workers)
        gallery.flush()
    return done


def _opened(place: Place, encoder: Encoder, made_with: str | None) -> VectorIndex:
    engine = engine_for(place)
    if not engine.exists(place):
        size = encoder.preprocessing.input_size
        with torch.no_grad():
            dimension = encoder(torch.zeros(1, *size)).shape[1]
        return engine.make(place, encoder.family_id, dimension, made_with)
    gallery = engine(place)
    check_family(encoder.family_id, gallery.generations, gallery.place, adding=True)
    return gallery


def embed_into(
    gallery: VectorIndex,
    encoder: Encoder,
    images: ImageSet,
    about: Callable[[int], Metadata],
    done: Indexed,
    *,
    engine: Engine,
    batch_size: int,
    workers: int,
) -> None:
    """Embed all of `images`, add them as they come, and tell `done`; this process is the one that writes.

    about: the metadata of an image, by its place among `images`.
    """
    if not len(images):
        return
    batches = engine(encoder, images, batch_size=batch_size, workers=workers, description="indexing by")
    for places, vectors, unreadable in _gathered(batches):
        done.unreadable += unreadable
        if places:
            embeddings = Embeddings(vectors, encoder.family_id, encoder.capacity)
            gallery.add(embeddings, [images.ids[place] for place in places], list(map(about, places)))
            done.added += len(places)


def _absent(gallery: VectorIndex, images: ImageSet) -> list[int]:
    """The images whose ids are not there; an id that is there for another file is refused."""
    held = gallery.records(images.ids)
    for index, id in enumerate(images.ids):
        path = images.path(index)
        if id in held and path is not None:
            there = held[id].metadata.get("path")
            if there not in (None, str(path.resolve())):
                raise SearchError(
                    f"{gallery.place} already holds {id!r}, from {there}; say --prefix to keep both, or --replace"
                )
    return [index for index, id in enumerate(images.ids) if id not in held]


def _each_once(gallery: VectorIndex, images: ImageSet) -> dict[int, str]:
    """The images that are not there under any id, each once, by index, with their digests."""
    contents: dict[str, int] = {}
    for index in track(range(len(images)), "comparing pictures"):
        try:
            contents.setdefault(_content(images, index), index)
        except (OSError, UnreadableImageError):
            contents[f"unreadable {index}"] = index  # said when it is embedded
    held = gallery.holding(CONTENT, contents)
    return {index: content for content, index in contents.items() if content not in held}


def _content(images: ImageSet, index: int) -> str:
    """Of the file, or of the pixels where there is none."""
    path = images.path(index)
    if path is not None:
        return file_digest(path)
    picture = images.image(index)
    return hashlib.sha256(repr((picture.mode, picture.size)).encode() + picture.tobytes()).hexdigest()


def _gathered(
    batches: Iterator[EmbeddedBatch],
) -> Iterator[tuple[list[int], torch.Tensor, list[str]]]:
    """Several batches at once, since each addition waits for the disk."""
    places: list[int] = []
    vectors: list[torch.Tensor] = []
    unreadable: list[str] = []
    began = time.monotonic()
    for indices, embedded, failed in batches:
        places += indices.tolist()
        vectors += [embedded] if len(embedded) else []
        unreadable += failed
        if len(places) >= ROWS_AT_ONCE or time.monotonic() - began > SECONDS_AT_ONCE:
            yield places, torch.cat(vectors) if vectors else torch.empty(0), unreadable
            places, vectors, unreadable, began = [], [], [], time.monotonic()
    yield places, torch.cat(vectors) if vectors else torch.empty(0), unreadable
