"""Two processes that embed: workers of Ray against ranks of torchrun, each with one thread, into one gallery.

    python benchmarks/embedding_processes.py

The same files and network as in `embedding.py`. Ranks embed every second part of the images and send their vectors to
the first, which writes; workers of Ray are handed parts as they finish. Starting is left out on both sides, and shown;
ranks wait for each other before they begin, workers do not.
They take turns, and medians count. `torchrun_over_ray` is how many times as many images a second ranks embed.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

import prunnet
from embedding import BATCH, by_ray, network
from loading import photographs
from prunnet.evaluation import embedded_batches
from prunnet.search import FolderIndex
from prunnet.search.ray_engine import BATCHES_AT_ONCE

PROCESSES, ROUNDS, COUNT = 2, 3, 256


def rank(folder: Path) -> None:
    """What each process of torchrun does."""
    dist.init_process_group("gloo")
    encoder, images = network(), photographs(folder).take(range(COUNT))
    encoder(torch.zeros(1, *encoder.preprocessing.input_size))
    dist.barrier()
    began = time.perf_counter()
    part = BATCH * BATCHES_AT_ONCE
    starts = range(dist.get_rank() * part, len(images), dist.get_world_size() * part)
    mine = images.take([place for start in starts for place in range(start, min(start + part, len(images)))])
    found = list(embedded_batches(encoder, mine, batch_size=BATCH, description=None))
    ids = [mine.ids[place] for batch in found for place in batch.indices.tolist()]
    sent = (ids, torch.cat([batch.vectors for batch in found]))
    received: list[tuple[list[str], torch.Tensor]] = [sent] * dist.get_world_size()
    dist.gather_object(sent, received if dist.get_rank() == 0 else None)
    if dist.get_rank() == 0:
        with tempfile.TemporaryDirectory() as place:
            gallery = FolderIndex.make(Path(place, "gallery"), encoder.family_id, 256)
            for names, vectors in received:
                gallery.add(prunnet.Embeddings(vectors, encoder.family_id, 1.0), names)
        print(f"seconds: {time.perf_counter() - began}")
    dist.destroy_process_group()


def by_torchrun(folder: Path) -> tuple[float, float]:
    """Seconds to embed all, and to start."""
    began = time.perf_counter()
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
    told = subprocess.run([*launch, __file__, str(folder)], check=True, capture_output=True, text=True).stdout
    seconds = float(told.rsplit("seconds: ", 1)[1])
    return seconds, time.perf_counter() - began - seconds


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    encoder = network()
    with tempfile.TemporaryDirectory() as folder:
        images = photographs(Path(folder)).take(range(COUNT))
        ray, ranks = [], []
        for _ in range(ROUNDS):
            ray.append(by_ray(encoder, images, PROCESSES))
            ranks.append(by_torchrun(Path(folder)))
    for name, measured in (("ray", ray), ("torchrun", ranks)):
        print(f"{name}_images_per_second: {COUNT / median(seconds for seconds, _ in measured):.1f}")
        print(f"{name}_start_seconds: {median(start for _, start in measured):.1f}")
    print(f"torchrun_over_ray: {median(s for s, _ in ray) / median(s for s, _ in ranks):.3f}")


if __name__ == "__main__":
    if "LOCAL_RANK" in os.environ:
        rank(Path(sys.argv[1]))
    else:
        main()
