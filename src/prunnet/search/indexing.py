"""From images to a gallery: embed what is not there yet, and add it a batch at a time."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
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
    with gallery.writing():
        done = add_images(
            gallery,
            encoder,
            images,
            prefix=prefix,
            replace=replace,
            unique=unique,
            batch_size=batch_size,
            workers=workers,
            engine=engine,
        )
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


def add_images(
    gallery: VectorIndex,
    encoder: Encoder,
    images: ImageSet,
    *,
    prefix: str = "",
    replace: bool = False,
    unique: bool = False,
    batch_size: int = 64,
    workers: int = 0,
    engine: Engine = embedded_batches,
    known: Mapping[str, Metadata] | None = None,
) -> Indexed:
    """The same for a gallery that is open, of which this process is the one that writes.

    known: metadata by id, instead of what the images tell.
    """
    done = Indexed()
    ids = [prefix + id for id in images.ids]
    wanted = list(range(len(images)))
    if not replace:
        wanted = _absent(gallery, images, ids)
        done.present = len(images) - len(wanted)
    contents: dict[int, str] = {}
    if unique:
        contents, wanted = _each_once(gallery, images, wanted, done)
    if not wanted:
        return done
    asked = images.take(wanted)
    batches = engine(encoder, asked, batch_size=batch_size, workers=workers, description="indexing by")
    for places, vectors, unreadable in _gathered(batches):
        done.unreadable += unreadable
        rows = [wanted[place] for place in places]
        metadata = [
            dict(known[ids[row]] if known else described(images, row)) | ({CONTENT: contents[row]} if unique else {})
            for row in rows
        ]
        if rows:
            embeddings = Embeddings(vectors, encoder.family_id, encoder.capacity)
            gallery.add(embeddings, [ids[row] for row in rows], metadata)
        done.added += len(rows)
    return done


def _absent(gallery: VectorIndex, images: ImageSet, ids: Sequence[str]) -> list[int]:
    """The images whose ids are not there; an id that is there for another file is refused."""
    held = gallery.records(ids)
    for index, id in enumerate(ids):
        path = images.path(index)
        if id in held and path is not None:
            there = held[id].metadata.get("path")
            if there not in (None, str(path.resolve())):
                raise SearchError(
                    f"{gallery.place} already holds {id!r}, from {there}; say --prefix to keep both, or --replace"
                )
    return [index for index, id in enumerate(ids) if id not in held]


def _each_once(
    gallery: VectorIndex, images: ImageSet, wanted: Sequence[int], done: Indexed
) -> tuple[dict[int, str], list[int]]:
    contents: dict[int, str] = {}
    for index in track(wanted, "comparing pictures"):
        try:
            contents[index] = _content(images, index)
        except (OSError, UnreadableImageError):
            contents[index] = f"unreadable {index}"  # said when it is embedded
    seen, kept = gallery.holding(CONTENT, contents.values()), []
    for index in wanted:
        if contents[index] not in seen:
            seen.add(contents[index])
            kept.append(index)
    done.repeated += len(wanted) - len(kept)
    return contents, kept


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
