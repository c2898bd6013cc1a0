"""Embedding photographs into a gallery against the bare forward passes of the same network.

    python benchmarks/embedding.py                                 # JPEG files of 256 pixels, drawn for it
    python benchmarks/embedding.py --images DATA/grocery/test      # the first photographs in a folder

ResNet-18 at 224 pixels; one thread computes. `embedding_over_forward` compares with the passes alone, on tensors that
are ready: reading, decoding and transforming happen meanwhile in another thread, and what is left are the first batch,
segments, checksums and fsyncs. Target: 0.95 or more, where there is a second core for that thread.

`ray_over_plain` is Ray with one worker against the same in one process, from the worker's first batch until the gallery
is written: starting Ray and its worker, who has to import torch, is left out and shown as `ray_start_seconds`. Target:
0.85. Where Ray is not installed it is not measured.

All take turns, and medians count.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import torch

import prunnet
from _timing import show
from loading import photographs
from prunnet.data import ImageSet
from prunnet.search import RayEngine, images_in

BATCH = 16
os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}  # the other side is not nice either


class Noting:
    """An encoder that writes down when each of its calls began, in whatever process."""

    def __init__(self, encoder: prunnet.Subnetwork, file: Path) -> None:
        self.capacity, self.family_id, self.preprocessing = encoder.capacity, encoder.family_id, encoder.preprocessing
        self.encoder, self.file = encoder, file

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        with self.file.open("a") as file:
            print(time.monotonic(), file=file)
        return self.encoder(images)


def network() -> prunnet.Subnetwork:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    encoder = prunnet.convert(prunnet.create_backbone("resnet18"), 256).subnetwork(1.0)
    encoder.adapted = True
    return encoder


def by_ray(encoder: prunnet.Subnetwork, images: ImageSet, workers: int) -> tuple[float, float]:
    """Seconds from the first batch until the gallery is written, and until then."""
    import ray

    began = time.monotonic()
    ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    with tempfile.TemporaryDirectory() as folder:
        calls = Path(folder, "calls")
        engine = RayEngine(concurrency=workers)
        prunnet.index(Path(folder, "gallery"), Noting(encoder, calls), images, batch_size=BATCH, engine=engine)
        ended = time.monotonic()
        _, first, *_ = sorted(map(float, calls.read_text().split()))  # before it this process has asked for dimensions
    ray.shutdown()
    return ended - first, first - began


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
