"""Embedding photographs into a gallery against the bare forward passes of the same network.

    python benchmarks/embedding.py                                 # JPEG files of 256 pixels, drawn for it
    python benchmarks/embedding.py --images DATA/grocery/test      # the first photographs in a folder

ResNet-18 at 224 pixels; one thread computes. `embedding_over_forward` compares with the passes alone, on tensors that
are ready: reading, decoding and transforming happen meanwhile in another thread, and what is left are the first batch,
segments, checksums and fsyncs. Target: 0.95 or more, where there is a second core for that thread.

`ray_over_plain` is Ray with one worker against the same in one process, in images per second from the first result on:
starting Ray and its worker, who has to import torch, is left out and shown as `ray_start_seconds`. Target: 0.85.
Where Ray is not installed it is not measured.

All take turns, and medians count.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import torch

import prunnet
from _timing import show
from loading import photographs
from prunnet.data import ImageSet
from prunnet.evaluation import EmbeddedBatch
from prunnet.search import RayEngine, images_in

BATCH = 16


class FromFirst:
    """Ray, and when the first result of every worker had come."""

    def __init__(self, engine: RayEngine) -> None:
        self.engine = engine

    def __call__(self, encoder: Any, images: ImageSet, **options: Any) -> Iterator[EmbeddedBatch]:
        called = time.perf_counter()
        self.left = len(images)
        for number, batch in enumerate(self.engine(encoder, images, **options), 1):
            if number <= self.engine.concurrency:
                self.first = time.perf_counter()
                self.left -= len(batch.indices)
                self.start = self.first - called
            yield batch


def network() -> prunnet.Subnetwork:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    encoder = prunnet.convert(prunnet.create_backbone("resnet18"), 256).subnetwork(1.0)
    encoder.adapted = True
    return encoder


def by_ray(encoder: prunnet.Subnetwork, images: ImageSet, workers: int) -> tuple[float, float]:
    """Seconds to embed all, and to start."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # the other side has none either
    engine = FromFirst(RayEngine(concurrency=workers))
    with tempfile.TemporaryDirectory() as place:
        prunnet.index(Path(place, "gallery"), encoder, images, batch_size=BATCH, engine=engine)
        return (time.perf_counter() - engine.first) / engine.left * len(images), engine.start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=Path)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    encoder = network()
    with tempfile.TemporaryDirectory() as folder:
        images = photographs(Path(folder)) if arguments.images is None else images_in(arguments.images)
        images = images.take(range(arguments.count))
        ready = list(prunnet.data.make_loader(images, encoder.preprocessing.transform(), BATCH))
        starts: list[float] = []

        def forward() -> float:
            began = time.perf_counter()
            with torch.inference_mode():
                for batch in ready:
                    encoder(batch.images)
            return time.perf_counter() - began

        def gallery() -> float:
            with tempfile.TemporaryDirectory() as place:
                began = time.perf_counter()
                prunnet.index(Path(place, "gallery"), encoder, images, batch_size=BATCH)
                return time.perf_counter() - began

        def one_by_ray() -> float:
            seconds, start = by_ray(encoder, images, 1)
            starts.append(start)
            return seconds

        tasks: dict[str, Callable[[], float]] = {"forward passes": forward, "gallery": gallery}
        if find_spec("ray") is not None:
            tasks["gallery by Ray"] = one_by_ray
        seconds: dict[str, list[float]] = {name: [] for name in tasks}
        forward()
        for turn in range(arguments.rounds):
            names = list(tasks)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                seconds[name].append(tasks[name]())
        middle = {name: median(values) for name, values in seconds.items()}
    show(middle)
    print(f"images_per_second: {len(images) / middle['gallery']:.1f}")
    if starts:
        print(f"ray_start_seconds: {median(starts):.1f}")
    print(f"embedding_over_forward: {middle['forward passes'] / middle['gallery']:.3f}")
    if starts:
        print(f"ray_over_plain: {middle['gallery'] / middle['gallery by Ray']:.3f}")


if __name__ == "__main__":
    main()
