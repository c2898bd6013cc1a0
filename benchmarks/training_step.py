"""One PrunNet step against five dense training steps: ResNet-18 and MobileNetV2, 112 px, batch 64, N = 4, all included.

Both take their images channels last, as the loaders give them: the fastest dense step there is on a CPU.

    python benchmarks/training_step.py

Targets: at most 1.05 times the time of five dense steps; peak memory at most that of one dense step, the (N+1)
gradients of the prunable weights and the optimiser state of weights and scores. Memory is measured twice: with every
large block returned to the system when it is freed, so that the peak is what the step needs, and with glibc's defaults,
under which both kinds of step hold some 250 MB more than they need.
"""

import os
import re
import subprocess
import sys
from itertools import count
from pathlib import Path

import torch

import prunnet
from _timing import show
from prunnet._timing import medians
from prunnet.methods import Dense, PrunNet
from prunnet.methods.method import Method

CLASSES, SIDE = 1000, 112
BACKBONES = {"mobilenetv2": "mobilenetv2_100", "resnet18": "resnet18"}


def stepper(method: Method):
    """A function that takes one optimisation step, as the training loop does."""
    torch.manual_seed(0)
    images, labels = torch.randn(64, 3, SIDE, SIDE), torch.randint(0, CLASSES, (64,))
    images = images.contiguous(memory_format=torch.channels_last)
    method.train()
    optimiser = torch.optim.SGD(method.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    numbers = count()

    def take_step() -> None:
        step = method.step(next(numbers))
        step.backward(images, labels)
        step.finish()
        optimiser.step()
        optimiser.zero_grad()

    return take_step


def network(backbone: str = "resnet18") -> prunnet.PrunableNetwork:
    torch.manual_seed(0)
    return prunnet.convert(prunnet.create_backbone(backbone))


def peak_bytes(kind: str, allocator: dict[str, str]) -> int:
    """Peak resident memory of a fresh process that takes three steps."""
    environment = {**os.environ, **allocator}
    done = subprocess.run([sys.executable, __file__, kind], check=True, capture_output=True, text=True, env=environment)
    return int(done.stdout.split()[-1])


def memory_over_allowed(scores: int, allocator: dict[str, str]) -> float:
    measured = {kind: peak_bytes(kind, allocator) for kind in ("import", "dense", "prunnet")}
    used = {kind: measured[kind] - measured["import"] for kind in ("dense", "prunnet")}
    # a dense step has its own momentum already; the scores add a value and a momentum each, the N+1 passes a gradient
    allowed = used["dense"] + 4 * scores * (5 + 2)
    for kind, value in used.items():
        print(f"peak memory of a {kind} step: {value / 1e6:.0f} MB")
    print(f"allowed: {allowed / 1e6:.0f} MB")
    return used["prunnet"] / allowed


def step_over_five_dense(backbone: str) -> float:
    dense = stepper(Dense(network(backbone), CLASSES))
    pruned = stepper(PrunNet(network(backbone), CLASSES))

    def five_dense_steps() -> None:
        for _ in range(5):
            dense()

    seconds = medians({f"{backbone}: five dense steps": five_dense_steps, "one PrunNet step": pruned}, rounds=5)
    show(seconds)
    five, one = seconds.values()
    return one / five


def main() -> None:
    ratios = {name: step_over_five_dense(backbone) for name, backbone in BACKBONES.items()}
    scores = sum(score.numel() for score in network().scores.values())
    needed = memory_over_allowed(scores, {"MALLOC_MMAP_THRESHOLD_": str(2**16)})
    print("with glibc's defaults:")
    held = memory_over_allowed(scores, {})
    print(f"prunnet_memory_held_over_allowed: {held:.3f}")
    print(f"prunnet_memory_over_allowed: {needed:.3f}")
    for name, ratio in ratios.items():
        print(f"{name}_step_over_five_dense: {ratio:.3f}")


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        if sys.argv[1] != "import":
            net = network()
            step = stepper(Dense(net, CLASSES) if sys.argv[1] == "dense" else PrunNet(net, CLASSES))
            for _ in range(3):
                step()
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        assert peak is not None
        print(int(peak[1]) * 1024)
