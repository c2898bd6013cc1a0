"""Pictures of the gallery, small: only those of images that are in the index, looked up by their ids."""

import base64
import binascii
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from prunnet._pictures import thumbnail
from prunnet.data.images import FilePixels
from prunnet.errors import UnreadableImageError
from prunnet.search import Record, VectorIndex, images_in

SIDE = 256
CACHED_BYTES = 64_000_000


class Thumbnail(NamedTuple):
    """A small picture as a file."""

    content: bytes
    media_type: str


class Pictures:
    """Thumbnails of what `index` holds. The file of an image is the one that the index has kept, never a request's.

    folder: where the images are now, by id, if they have moved since they were indexed.
    """

    def __init__(self, index: VectorIndex, folder: Path | None = None) -> None:
        self._index = index
        self._moved = None
        if folder is not None:
            found = images_in(folder)
            self._moved = {id: str(found.path(place)) for place, id in enumerate(found.ids)}
        self._made: OrderedDict[tuple[str, str], Thumbnail] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def address(self, record: Record) -> str | None:
        """Where the picture of `record` is asked for, if there is one."""
        return None if self._file(record) is None else f"/v1/images/{token_of(record.id)}"

    def get(self, token: str) -> Thumbnail | None:
        """The picture that `token` stands for, if the index has it and it can be read."""
        id = id_of(token)
        record = self._index.records([id]).get(id) if id else None
        file = None if record is None else self._file(record)
        if record is None or file is None:
            return None
        box = str(record.metadata.get("box", ""))
        with self._lock:
            if (kept := self._made.get((file, box))) is not None:
                self._made.move_to_end((file, box))
                return kept
        try:
            made = Thumbnail(*thumbnail(FilePixels([file], [_box(box)]).open(0), SIDE))
        except (UnreadableImageError, ValueError):
            return None
        self._keep((file, box), made)
        return made

    def _file(self, record: Record) -> str | None:
        if self._moved is not None:
            return self._moved.get(record.id)
        path = record.metadata.get("path")
        return path if isinstance(path, str) else None

    def _keep(self, key: tuple[str, str], made: Thumbnail) -> None:
        with self._lock:
            if key in self._made:
                return
            self._made[key] = made
            self._bytes += len(made.content)
            while self._bytes > CACHED_BYTES:
                self._bytes -= len(self._made.popitem(last=False)[1].content)


def token_of(id: str) -> str:
    """An id as a part of an address."""
    return base64.urlsafe_b64encode(id.encode("utf-8", "surrogateescape")).decode().rstrip("=")


def id_of(token: str) -> str:
    """The id of a token; empty if it is none."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return ""
    return raw.decode("utf-8", "surrogateescape")


def _box(text: str) -> tuple[float, float, float, float] | None:
    if not text:
        return None
    left, upper, right, lower = map(float, text.split())
    return left, upper, right, lower
