"""What the checksum of stored tensors costs when a family is loaded.

A ResNet-50 family with statistics at two capacities, loaded as users do, with and without the comparison, in turns.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import torch

import prunnet
from prunnet import _checked
from prunnet._timing import medians

ROUNDS = 7


@contextmanager
def unchecked() -> Iterator[None]:
    """Every checksum of tensors is taken for the one that is stored."""
    with patch.object(_checked, "_digest", lambda *_: _Anything()):
        yield


class _Anything:
    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = prunnet.convert(prunnet.create_backbone("resnet50"), preprocessing=prunnet.Preprocessing((3, 64, 64)))
    net.capacities = (0.5, 0.2)
    prunnet.adapt_batchnorm(net, [torch.randn(2, 3, 64, 64)], capacities=net.capacities)
    with tempfile.TemporaryDirectory() as root:
        folder = prunnet.save(net, Path(root) / "family")
        size = (folder / "model.safetensors").stat().st_size

        def load_unchecked() -> None:
            with unchecked():
                prunnet.load(folder)

        def read_unchecked() -> None:
            with unchecked():
                _checked.load_tensors(folder / "model.safetensors")

        seconds = medians(
            {
                "load": lambda: prunnet.load(folder),
                "load, unchecked": load_unchecked,
                "read tensors": lambda: _checked.load_tensors(folder / "model.safetensors"),
                "read tensors, unchecked": read_unchecked,
            },
            ROUNDS,
        )
    print(f"a family of {size / 1e6:.0f} MB, weights and scores")
    for name, value in seconds.items():
        print(f"{name:<24} {value * 1000:8.0f} ms")
    print(f"checksum_load_over_unchecked: {seconds['load'] / seconds['load, unchecked']:.3f}")


if __name__ == "__main__":
    main()
