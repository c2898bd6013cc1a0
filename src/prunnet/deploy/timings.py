"""The truth about speed: what each capacity takes, here, in each runtime."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from prunnet._progress import track
from prunnet._timing import medians
from prunnet.costs import profile_of
from prunnet.costs.structured_profile import StructuredCostProfile
from prunnet.deploy.latency import RUNTIMES, runner
from prunnet.deploy.pruning import deployed, is_view
from prunnet.errors import ExportError, LibraryError
from prunnet.network import Family, Subnetwork
from prunnet.network.family import check_available
from prunnet.structured.removal import structured_subnetwork

CAPACITIES = (1.0, 0.5, 0.2, 0.1)


@dataclass(frozen=True)
class Timing:
    """One subnetwork in one runtime; `ratio` and `macs_ratio` are to the largest in the same runtime."""

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
    family: Family,
    capacities: Iterable[float] | None = None,
    runtimes: Sequence[str] | None = None,
    *,
    structured: bool = False,
    batch_size: int = 8,
    rounds: int = 15,
) -> list[Timing]:
    """Latency of one image and throughput of `batch_size`, medians of `rounds` in which all capacities take turns.

    `capacities`: by default 1, 0.5, 0.2, 0.1 and those trained, as far as the family has them. `structured` adds the
    structured view of each capacity. Ratios are to the largest, which is the dense network where there is one.
    `runtimes`: by default all; prunnet's own is left out, with a warning, where it lacks an operation or a compiler.
    """
    members = _members(family, capacities, structured)
    timings = []
    for runtime in track(RUNTIMES if runtimes is None else runtimes, "measuring"):
        try:
            runs = [runner(subnetwork, runtime) for _, subnetwork, _ in members]
        except (ExportError, LibraryError) as error:
            if runtimes is not None or runtime != "prunnet":
                raise
            warnings.warn(f"prunnet's own runtime is left out: {error}", stacklevel=2)
            continue
        seconds = {}
        for size in (1, batch_size):
            images = torch.randn(size, *family.preprocessing.input_size)
            tasks = {str(i): (lambda run=run, images=images: run(images)) for i, run in enumerate(runs)}
            seconds[size] = list(medians(tasks, rounds).values())
        timings += [
            Timing(
                runtime=runtime,
                capacity=subnetwork.capacity,
                structured=narrower,
                latency=seconds[1][i],
                throughput=batch_size / seconds[batch_size][i],
                ratio=seconds[1][i] / seconds[1][0],
                macs_ratio=macs / members[0][2],
            )
            for i, (narrower, subnetwork, macs) in enumerate(members)
        ]
    return timings


def _members(
    family: Family, capacities: Iterable[float] | None, structured: bool
) -> list[tuple[bool, Subnetwork, int]]:
    """Whether filters are gone, the subnetwork and its MACs; the largest first."""
    wanted = (*CAPACITIES, *family.capacities) if capacities is None else (1.0, *check_available(family, capacities))
    sizes = family.available(wanted)
    profile = profile_of(family)
    narrower = isinstance(profile, StructuredCostProfile)
    members = [(narrower and c < 1.0, deployed(family, c), profile.cost(c).macs) for c in sizes]
    if structured and is_view(family):
        view = StructuredCostProfile(family)
        members += [(True, structured_subnetwork(family, c), view.macs_at(c)) for c in sizes[1:]]
    return members
