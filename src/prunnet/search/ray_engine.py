"""Embedding by many processes, on this machine or on a cluster, by Ray Data. They only embed: the caller writes.

Every part of the images is embedded as in one process, in the same batches, so the vectors are the same.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from prunnet._progress import track
from prunnet._torchvision import require_torchvision
from prunnet.data import UNLABELLED, ImageSet
from prunnet.errors import MissingExtraError, PrunNetError, SearchError
from prunnet.evaluation import EmbeddedBatch, Encoder, embedded_batches
from prunnet.network.capacity import format_capacity

BATCHES_AT_ONCE = 4
"""Of a part: what a worker embeds at a time, and what is lost if it or this process is killed."""


@dataclass(frozen=True)
class RayEngine:
    """Embeds images by workers of Ray, each of which holds the network and reads its images itself.

    concurrency: how many workers.
    num_cpus: of each worker; so many threads compute.
    num_gpus: of each worker; with any, it embeds there.
    address: of a running cluster (`auto`, `ray://HOST:10001`); without it Ray is started on this machine, and stopped.
    """

    concurrency: int = 1
    num_cpus: int = 1
    num_gpus: float = 0
    address: str | None = None

    def __call__(
        self, encoder: Encoder, images: ImageSet, *, batch_size: int = 64, workers: int = 0, description: str = ""
    ) -> Iterator[EmbeddedBatch]:
        """As `prunnet.evaluation.embedded_batches`, which the workers call."""
        step = batch_size * BATCHES_AT_ONCE
        with self._connected() as ray:
            parts = [
                {"start": start, "pixels": images.pixels.take(np.arange(start, min(start + step, len(images))))}
                for start in range(0, len(images), step)
            ]
            dataset = ray.data.from_items(parts, override_num_blocks=len(parts)).map(
                _Worker,
                fn_constructor_args=(ray.put(encoder), batch_size, workers, self.num_cpus, self.num_gpus > 0),
                compute=ray.data.ActorPoolStrategy(size=self.concurrency),
                num_cpus=self.num_cpus,
                num_gpus=self.num_gpus,
            )
            dataset.context.execution_options.preserve_order = True
            dataset.context.enable_progress_bars = dataset.context.print_on_execution_start = False
            description = f"{description} {format_capacity(encoder.capacity)}".strip()
            for row in track(dataset.iter_rows(), description, len(parts)):
                if row["failed"]:
                    raise SearchError(f"a worker of Ray failed: {row['failed']}")
                indices = torch.from_numpy(row["indices"].copy())
                vectors = torch.from_numpy(np.frombuffer(row["vectors"], dtype=np.float32).copy())
                shape = (len(indices), -1) if len(indices) else (0,)
                yield EmbeddedBatch(indices, vectors.reshape(shape), tuple(row["unreadable"]))

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
        try:
            import ray
            import ray.data
        except ImportError:
            raise MissingExtraError("ray", "ray", "--engine ray") from None
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        ours = not ray.is_initialized()
        if ours:
            self._connect(ray)
        try:
            self._check_room(ray.cluster_resources())
            yield ray
        except ray.exceptions.RayError as error:
            raise SearchError(f"a worker of Ray failed: {_last_line(error)}") from None
        finally:
            if ours:
                ray.shutdown()

    def _connect(self, ray: Any) -> None:
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        options["address"] = self.address or "local"
        if self.address is None:
            cpus = max(self.concurrency * self.num_cpus + 1, os.cpu_count() or 1)  # one for what hands out the parts
            options |= {"num_cpus": cpus, "include_dashboard": False}
        try:
            ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            where = "could not be started" if self.address is None else f"does not answer at {self.address}"
            raise SearchError(f"Ray {where}: {_last_line(error)}") from None

    def _check_room(self, resources: dict[str, float]) -> None:
        """Without room for one worker Ray would wait for more machines."""
        cpus, gpus = resources.get("CPU", 0), resources.get("GPU", 0)
        if cpus < self.num_cpus or gpus < self.num_gpus:
            raise SearchError(
                f"Ray has {cpus:g} CPUs and {gpus:g} GPUs; a worker wants {self.num_cpus} and {self.num_gpus:g}"
            )


class _Worker:
    """Embeds parts of the images with a network of its own."""

    def __init__(self, encoder: Any, batch_size: int, workers: int, threads: int, on_gpu: bool) -> None:
        import ray

        torch.set_num_threads(threads)
        require_torchvision()
        self.encoder = ray.get(encoder)
        if on_gpu and isinstance(self.encoder, torch.nn.Module):
            self.encoder.cuda()
        self.batch_size, self.workers = batch_size, workers

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        failed, batches, pixels = "", [], row["pixels"]
        images = ImageSet(pixels, [UNLABELLED] * len(pixels), [], [""] * len(pixels))
        options: dict[str, Any] = {"batch_size": self.batch_size, "workers": self.workers}
        try:
            batches = list(embedded_batches(self.encoder, images, **options, description=None))
        except Exception as error:  # Ray would tell of it on three screens
            failed = str(error) if isinstance(error, PrunNetError) else repr(error)
        return {
            "indices": np.concatenate([batch.indices.numpy() + row["start"] for batch in batches] or [[]]),
            "vectors": b"".join(batch.vectors.numpy().tobytes() for batch in batches),
            "unreadable": [message for batch in batches for message in batch.unreadable],
            "failed": failed,
        }


def _last_line(error: Exception) -> str:
    """What went wrong, without where."""
    return str(error).strip().splitlines()[-1]
