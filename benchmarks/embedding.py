"""Embedding photographs into a gallery against the bare forward passes of the same network.

    python benchmarks/embedding.py

ResNet-18 at 224 pixels, JPEG files of 256. `embedding_over_loop` compares with a loop that reads, transforms and embeds
the same files in the same batches; `embedding_over_forward` with the passes alone, on tensors that are ready, which
nobody has. What the gallery adds is its segments, checksums and fsyncs. They take turns. Target: 0.95 or more.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import prunnet
from _timing import show
from loading import photographs
from prunnet._timing import medians

BATCH, ROUNDS = 32, 3


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = prunnet.convert(prunnet.create_backbone("resnet18"), 256)
    encoder = net.subnetwork(1.0)
    transform = encoder.preprocessing.transform()
    with tempfile.TemporaryDirectory() as folder:
        images = photographs(Path(folder))
        paths = [Path(folder) / name for name in images.ids]
        starts = range(0, len(images), BATCH)

        def read(start: int) -> torch.Tensor:
            return torch.stack([transform(Image.open(path).convert("RGB")) for path in paths[start : start + BATCH]])

        ready = [read(start) for start in starts]

        @torch.no_grad()
        def forward() -> None:
            for batch in ready:
                encoder(batch)

        @torch.no_grad()
        def loop() -> None:
            np.concatenate([encoder(read(start)).numpy() for start in starts])

        def gallery() -> None:
            with tempfile.TemporaryDirectory() as place:
                prunnet.index(Path(place, "gallery"), encoder, images, batch_size=BATCH)

        seconds = medians({"forward passes": forward, "loop": loop, "gallery": gallery}, ROUNDS)
    show(seconds)
    print(f"images_per_second: {len(images) / seconds['gallery']:.1f}")
    print(f"embedding_over_forward: {seconds['forward passes'] / seconds['gallery']:.3f}")
    print(f"embedding_over_loop: {seconds['loop'] / seconds['gallery']:.3f}")


if __name__ == "__main__":
    main()
