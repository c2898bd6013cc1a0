"""Pictures in, vectors out, for those who ask without a model of their own."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from prunnet._pictures import decode_picture
from prunnet.serve.batching import Batcher
from prunnet.serve.metrics import Histogram
from prunnet.serve.model import ServedModel

TOGETHER = 16  # pictures
READERS = 2
"""Threads that decode; each may hold the largest picture that is read."""


class Embedding:
    """Decodes pictures in threads, and embeds those that wait together, in another."""

    def __init__(self, model: ServedModel, sizes: Histogram) -> None:
        self._model = model
        self._readers = ThreadPoolExecutor(READERS)
        self._batcher: Batcher[float | None, Tensor, Tensor] = Batcher(self._embed, TOGETHER, sizes.observe)

    async def __call__(self, picture: bytes, capacity: float | None = None) -> Tensor:
        """The vector `[1, d]` of a picture's file, by the member at `capacity` (default: the largest)."""
        loop = asyncio.get_running_loop()
        image = await loop.run_in_executor(self._readers, self._read, picture)
        return await self._batcher(capacity, image)

    def _read(self, picture: bytes) -> Tensor:
        return self._model.transform(decode_picture(picture, "the picture"))

    @torch.inference_mode()
    def _embed(self, capacity: float | None, images: Sequence[Tensor]) -> list[Tensor]:
        batch = torch.stack([*images]).contiguous(memory_format=torch.channels_last)
        return list(self._model.member(capacity)(batch).float().split(1))
