"""The truth about speed: what each capacity takes, here, in each runtime."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from prunnet._progress import track
from prunnet.deploy.latency import RUNTIMES, medians, runner
from prunnet.deploy.structured import structured_subnetwork
from prunnet.network import PrunableNetwork, Subnetwork
from prunnet.network.capacity import check_capacities
from prunnet.network.cost_profile import CostProfile
from prunnet.network.structured_cost import StructuredCostProfile


@dataclass(frozen=True)
class Timing:
    """One subnetwork in one runtime; `ratio` and `macs_ratio` are against the dense network in the same runtime."""

    runtime: str
    capacity: float
    structured: bool
    latency: float
    throughput: float
    ratio: float
    macs_ratio: float

    @property
    def saving_used(self) -> float:
        """Share of the saved MACs that was saved in time as well: 1 where time follows MACs, 0 where it does not."""
        return (1 - self.ratio) / (1 - self.macs_ratio) if self.macs_ratio < 1 else 1.0

    @property
    def verdict(self) -> str:
        """`yes`, `partly` or `no`: whether this runtime turned what was pruned into time."""
        return "yes" if self.saving_used >= 0.5 else "partly" if self.saving_used >= 0.2 else "no"


def bench(
    net: PrunableNetwork,
    capacities: Iterable[float] = (1.0, 0.5, 0.2, 0.1),
    runtimes: Sequence[str] = RUNTIMES,
    *,
    structured: bool = False,
    batch_size: int = 8,
    rounds: int = 15,
) -> list[Timing]:
    """Latency of one image and throughput of `batch_size`, medians of `rounds` in which all capacities take turns.

    `structured` adds the structured subnetwork at each capacity; a family that was trained so has no others. The dense
    network is always measured.
    """
    chosen = check_capacities((1.0, *capacities))
    zeros = chosen[:1] if net.structured else chosen
    profile = CostProfile(net)
    subnetworks: list[tuple[bool, Subnetwork, int]] = [(False, net.subnetwork(c), profile.macs_at(c)) for c in zeros]
    if structured or net.structured:
        narrower = StructuredCostProfile(net)
        subnetworks += [(True, structured_subnetwork(net, c), narrower.macs_at(c)) for c in chosen[1:]]
    timings = []
    for runtime in track(runtimes, "measuring"):
        runs = [runner(subnetwork, runtime) for _, subnetwork, _ in subnetworks]
        seconds = {}
        for size in (1, batch_size):
            images = torch.randn(size, *net.preprocessing.input_size)
            tasks = {str(i): (lambda run=run, images=images: run(images)) for i, run in enumerate(runs)}
            seconds[size] = list(medians(tasks, rounds).values())
        for i, (is_structured, subnetwork, macs) in enumerate(subnetworks):
            timings.append(
                Timing(
                    runtime=runtime,
                    capacity=subnetwork.capacity,
                    structured=is_structured,
                    latency=seconds[1][i],
                    throughput=batch_size / seconds[batch_size][i],
                    ratio=seconds[1][i] / seconds[1][0],
                    macs_ratio=macs / subnetworks[0][2],
                )
            )
    return timings
