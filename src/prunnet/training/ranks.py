"""The one place that knows about ranks: how many devices train together, which one this is, what they exchange."""

import os
from collections.abc import Iterable
from types import TracebackType

import torch
import torch.distributed as distributed
from torch import Tensor

from prunnet._devices import device_named


class Ranks:
    """All processes of a run. A single process needs no set-up and pays nothing.

    Start several with `torchrun --nproc-per-node R -m prunnet train …`.
    """

    def __init__(self, device: str = "auto") -> None:
        self.size = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device = device_named(device, int(os.environ.get("LOCAL_RANK", "0")))

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def __enter__(self) -> "Ranks":
        if self.size > 1:
            if self.device.type == "cuda":
                torch.cuda.set_device(self.device)
            distributed.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.size > 1:
            distributed.destroy_process_group()

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over ranks."""
        if self.size > 1:
            for tensor in tensors:
                distributed.all_reduce(tensor)
                tensor.div_(self.size)

    def average_numbers(self, values: list[float]) -> list[float]:
        """The mean over ranks of plain numbers."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        self.average([tensor])
        return [float(value) for value in tensor.tolist()]

    def any(self, *flags: bool) -> list[bool]:
        """Whether any rank says so, of each."""
        return [mean > 0 for mean in self.average_numbers([float(flag) for flag in flags])]

    def copy_from_main(self, tensors: Iterable[Tensor]) -> None:
        """Give every rank the main one's values."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor, 0)

    def copy_from(self, tensor: Tensor, rank: int) -> None:
        """Give every rank the values that `rank` has."""
        if self.size > 1:
            staged = tensor.to(self.device)
            distributed.broadcast(staged, rank)
            tensor.copy_(staged)

    def barrier(self) -> None:
        """Wait for all."""
        if self.size > 1:
            distributed.barrier()
