"""The progressive file of ResNet-18 with a 256-d head: sizes, membership against its entropy bound, time to decode.

Weights and scores are those of a fresh network. Membership costs the same whatever the scores; trained values may take
a little more or less than these.
"""

import tempfile
from pathlib import Path

import torch

import prunnet
from _timing import show
from prunnet._timing import medians
from prunnet.storage.prun import DEFAULT_GRID, pack, prefix_bytes, read_contents, unpack

SHOWN = (0.1, 0.2, 1.0)
COO_BYTES = 4 + 4 * 8  # a float and four int64 indices


def main() -> None:
    torch.manual_seed(0)
    net = prunnet.convert(prunnet.create_backbone("resnet18"), preprocessing=prunnet.Preprocessing((3, 64, 64)))
    images = torch.randn(16, 3, 64, 64)
    prunnet.adapt_batchnorm(net, [images], capacities=DEFAULT_GRID)
    with tempfile.TemporaryDirectory() as folder:
        files = {values: pack(net, Path(folder) / f"{values}.prun", values=values) for values in ("float16", "int8")}
        contents = read_contents(files["float16"])
        print("capacity  joining connections  membership bits each  bound   ratio")
        ratios = []
        for band in contents.bands:
            bits, bound = band.bits_per_connection, band.bound_per_connection
            ratio = bits / bound if bound else 1.0
            ratios.append(ratio)
            print(f"{band.capacity:8.0%}  {band.joining:19,}  {bits:20.4f}  {bound:6.4f}  {ratio:.5f}")

        sizes = {values: [prefix_bytes(file, c) / 1e6 for c in SHOWN] for values, file in files.items()}
        head = sum(p.numel() for p in net.head.parameters())
        print(f"\nMB at {', '.join(f'{c:.0%}' for c in SHOWN)} (of which the head, {head:,} values, takes about 0.2)")
        for values, megabytes in sizes.items():
            print(f"{values:8}" + "".join(f"{size:9.3f}" for size in megabytes))
        connections = contents.connections
        print("COO     " + "".join(f"{c * connections * COO_BYTES / 1e6:9.1f}" for c in SHOWN) + "\n")

        tasks = {f"unpack {values} at 20 %": lambda file=file: unpack(file, 0.2) for values, file in files.items()}
        seconds = medians({**tasks, "create the backbone": lambda: prunnet.create_backbone("resnet18")}, rounds=7)
        show(seconds)
    print(f"largest_membership_ratio: {max(ratios):.5f}")
    for capacity, size in zip(SHOWN, sizes["float16"], strict=True):
        print(f"megabytes_at_{capacity * 100:.0f}: {size:.3f}")
    print(f"unpack_seconds_at_20: {seconds['unpack float16 at 20 %']:.3f}")


if __name__ == "__main__":
    main()
