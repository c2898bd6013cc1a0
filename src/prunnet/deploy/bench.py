"""The truth about speed: what each capacity takes, here, in each runtime."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from prunnet._progress import track
from prunnet.deploy.budget import structured_macs
from prunnet.deploy.latency import RUNTIMES, medians, runner
from prunnet.deploy.structured import Structure
from prunnet.network import PrunableNetwork, Subnetwork
from prunnet.network.capacity import check_capacities
from prunnet.network.cost import CostProfile


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

    `structured` adds the structured subnetwork at each capacity. The dense network is always measured.
    """
    chosen = check_capacities((1.0, *capacities))
    profile = CostProfile(net)
    subnetworks: list[tuple[bool, Subnetwork, int]] = [
        (False, net.subnetwork(capacity), profile.macs_at(capacity)) for capacity in chosen
    ]
    if structured:
        structure = Structure(net)
        widths = [structure.width_for(capacity) for capacity in chosen if capacity < 1.0]
        subnetworks += [(True, structure.removed(w), structured_macs(structure, w, profile)) for w in widths]
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
