"""`prunnet.Runtime`: a subnetwork from the first bytes of a `.prun` file, run by the C library."""

import threading
import weakref
from collections.abc import Sequence
from ctypes import byref, c_void_p
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunnet._pictures import ToChannels
from prunnet.errors import CapacityError, FamilyError, ImageError, PrunNetError
from prunnet.network.capacity import check_capacity, format_capacity
from prunnet.network.embeddings import Embeddings
from prunnet.network.preprocessing import Picture, Preprocessing, check_images, one_by_one, to_pil
from prunnet.runtime.library import ERRORS, library
from prunnet.storage.prun.header import Header, check_length, read_header
from prunnet.storage.prun.source import Ranges, Source, open_ranges

Floats = NDArray[np.float32]


class Runtime:
    """The subnetwork at `capacity` of a `.prun` file that was packed with `runtime=True`; its zeros cost no time.

    source: a path, a file open for reading, or an http(s) address whose server answers range requests. Only the bytes
        of that capacity are read.
    capacity: one of the file's grid; default: the largest that the file holds.
    threads: how many work on an image; they wait without taking the processor.

    It is an encoder like any subnetwork: `evaluate`, indexes and `encode` take it.
    """

    def __init__(self, source: Source, capacity: float | None = None, *, threads: int = 1) -> None:
        self._source = source
        self._threads = threads
        self._lock = threading.Lock()
        self._growing = threading.Lock()
        with open_ranges(source) as file:
            self._name = file.name
            kept = _Kept(file)
            self._header, self._ends = read_header(kept)
            band = self._band(file, capacity)
            prefix = kept.read(0, self._ends[band + 1])
        self._library = library()
        self._model = c_void_p()
        opened = self._library.prunnet_open(byref(self._model), prefix, len(prefix))
        weakref.finalize(self, self._library.prunnet_close, self._model)
        self._check(opened)
        self._plan(band)

    @property
    def capacity(self) -> float:
        """Of the subnetwork that it runs."""
        return self._capacity

    @property
    def family_id(self) -> str:
        """Of the space that its embeddings lie in."""
        return self._header.family_id

    @property
    def preprocessing(self) -> Preprocessing:
        """What pictures go through."""
        return self._header.preprocessing.preprocessing()

    @property
    def embedding_dim(self) -> int:
        """The length of its embeddings."""
        return self._header.embedding_dim

    @property
    def grid(self) -> tuple[float, ...]:
        """The capacities of the file."""
        return self._header.grid

    @property
    def bytes(self) -> int:
        """How much of the file is in memory."""
        return int(self._library.prunnet_bytes(self._model))

    def upgrade(self, capacity: float) -> "Runtime":
        """Become the subnetwork at `capacity`, reading only what is not there yet; smaller ones need nothing."""
        with self._growing, open_ranges(self._source) as file:
            band = self._header.find(check_capacity(capacity))
            start, end = self.bytes, self._ends[band + 1]
            if end > start:
                if file.length:
                    self._band(file, capacity)
                piece = file.read(start, end - start)
                self._call("append", piece, len(piece))
            self._plan(band)
        return self

    def encode(self, images: Sequence[Picture] | Picture, *, batch_size: int = 64) -> Embeddings:  # noqa: ARG002
        """Embed PIL images, arrays, uint8 tensors, or already preprocessed float tensors, for search, one by one."""
        pictures = list(one_by_one(images))
        if not pictures:
            raise ImageError("no images were given")
        return Embeddings(torch.from_numpy(np.stack([self._embed(p) for p in pictures])), self.family_id, self.capacity)

    def __call__(self, images: Tensor) -> Tensor:
        """Preprocessed images `[N, C, H, W]` → L2-normalised embeddings."""
        batch = check_images(images, self.preprocessing).float().cpu()
        return torch.from_numpy(np.stack([self._embed(image) for image in batch]))

    def __repr__(self) -> str:
        return f"Runtime({self._name!r}, capacity={self.capacity:g}, family_id={self.family_id!r})"

    def _embed(self, picture: Picture) -> Floats:
        embedding = np.empty(self.embedding_dim, np.float32)
        out = embedding.ctypes.data
        if isinstance(picture, Tensor) and picture.is_floating_point():
            image = picture.detach().float().cpu().contiguous().numpy()
            if image.shape != self._header.preprocessing.input_size:
                raise ImageError(
                    f"this network runs images of {self._header.preprocessing.input_size}; found shape {image.shape}"
                )
            self._call("embed_image", image.ctypes.data, out)
            return embedding
        pixels = ToChannels(self._header.preprocessing.input_size[0])(to_pil(picture))
        channels = len(pixels.getbands())
        self._call("embed_picture", pixels.tobytes(), *pixels.size, channels, out)
        return embedding

    def _plan(self, band: int) -> None:
        self._call("plan", self._header.grid[band], self._threads)
        self._capacity = self._header.grid[band]

    def _band(self, file: Ranges, capacity: float | None) -> int:
        """The band that ends at `capacity`, if the file holds it."""
        header: Header = self._header
        held = check_length(file, header, self._ends)
        band = held - 1 if capacity is None else header.find(check_capacity(capacity))
        if band >= held:
            raise CapacityError(
                f"{file.name} holds capacities up to {format_capacity(header.grid[held - 1])}; for "
                f"{format_capacity(header.grid[band])} append bytes {self._ends[held]} to {self._ends[band + 1]} of "
                "the whole file"
            )
        return band

    def _call(self, function: str, *arguments: Any) -> None:
        """A function of the library on this model, by one thread at a time."""
        with self._lock:
            self._check(getattr(self._library, f"prunnet_{function}")(self._model, *arguments))

    def _check(self, code: int) -> None:
        if code:
            message: Any = self._library.prunnet_message(self._model)
            kind: type[PrunNetError] = ERRORS.get(code, FamilyError)
            raise kind(f"{self._name}: {message.decode(errors='replace')}")


class _Kept:
    """Ranges of which all that is read from the start on is kept, so that nothing is read twice."""

    def __init__(self, file: Ranges) -> None:
        self._file = file
        self._bytes = b""
        self.name = file.name
        self.length = file.length

    def read(self, start: int, size: int) -> bytes:
        missing = start + size - len(self._bytes)
        if missing > 0:
            self._bytes += self._file.read(len(self._bytes), missing)
            self.length = self._file.length
        return self._bytes[start : start + size]
