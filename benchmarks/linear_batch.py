"""Sparse linear layers at 10 %: eight images at once in the C kernels, against one after the other.

    python benchmarks/linear_batch.py

Layers of ViT-Small on 197 tokens, and heads on one vector; processor time of one thread, medians of 15. Last lines are
the time of a batch of 8 over 8 times that of one image.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from _kernels import Convolution, aligned, build, pitch

LAYERS = {"fc1": (384, 1536, 197), "fc2": (1536, 384, 197), "qkv": (384, 1152, 197), "head": (1280, 256, 1)}
BATCH, DENSITY, ROUNDS = 8, 0.1, 15


def main() -> None:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        for name, (inputs, outputs, tokens) in LAYERS.items():
            weight = random.standard_normal((outputs, inputs, 1, 1)).astype(np.float32)
            weight[random.random(weight.shape) >= DENSITY] = 0
            seconds: dict[int, list[float]] = {1: [], BATCH: []}
            layers = {n: Convolution(library, (n, 1, tokens), weight) for n in seconds}
            images = {n: aligned(inputs * pitch(n * tokens)).reshape(inputs, -1) for n in seconds}
            for _ in range(ROUNDS):
                for n, layer in layers.items():
                    layer.run(images[n])
                    start = time.thread_time()
                    for _ in range(BATCH // n):
                        layer.run(images[n])
                    seconds[n].append(time.thread_time() - start)
            print(f"{name}: {median(seconds[BATCH]) / median(seconds[1]):.2f}")


if __name__ == "__main__":
    main()
