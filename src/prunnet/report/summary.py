"""Everything a report says about a run, read from its folder or measured here."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from prunnet._timing import medians
from prunnet.costs import cost_table
from prunnet.data import RetrievalData, training_images
from prunnet.deploy import prune
from prunnet.deploy.latency import runner
from prunnet.errors import ReportError
from prunnet.evaluation import CompatibilityMatrix, embed_images
from prunnet.network import Family, Subnetwork
from prunnet.network.capacity import check_capacity
from prunnet.network.family import ADAPT_BATCHES
from prunnet.report.searches import ExampleSearch, search_examples
from prunnet.runs import Run, TrainConfig

ROUNDS = 31  # of measuring time, of which the median counts


@dataclass(frozen=True)
class Member:
    """One subnetwork of the matrix and what it costs; `seconds` for one image in torch on this machine."""

    capacity: float
    trained: bool
    self_test: float
    cross_test: float
    parameters: int
    bytes: int
    macs: int
    seconds: float

    def share_of(self, dense: "Member") -> str:
        """The cross-test as a share of the dense self-test, `95 %`."""
        return f"{100 * self.cross_test / dense.self_test:.0f} %" if dense.self_test else "–"


@dataclass(frozen=True)
class RunSummary:
    """What the page shows. `small` is the capacity that searches beside the dense network."""

    run: Run
    config: TrainConfig
    environment: Mapping[str, Any]
    family_id: str
    matrix: CompatibilityMatrix
    members: tuple[Member, ...]
    records: list[dict[str, Any]]
    data: RetrievalData
    small: float
    searches: list[ExampleSearch]

    @property
    def dense(self) -> Member:
        return self.members[0]

    def member(self, capacity: float) -> Member | None:
        """The member at `capacity`, if the matrix has it."""
        return next((member for member in self.members if member.capacity == capacity), None)

    @property
    def untrained(self) -> list[Member]:
        """Members that no training step ever used."""
        return [member for member in self.members if not member.trained]


def gather(run: Run, small: float | None = None, data: RetrievalData | None = None) -> RunSummary:
    """The summary of a finished run; `data` is loaded as its configuration says unless given."""
    small = nearest(run.require_finished().network, 0.13) if small is None else check_capacity(small)
    family, matrix, config = run.network, run.matrix, run.config
    data = run.load_data() if data is None else data
    dense, little = family.subnetwork(1.0), member_at(family, small, data)
    gallery = embed_images(dense, data.gallery, store=run.embeddings, description="embedding gallery")
    asked = [
        embed_images(network, data.query, store=run.embeddings, description="embedding query")
        for network in (dense, little)
        if network.family_id == dense.family_id  # networks that share no space cannot search its gallery
    ]
    return RunSummary(
        run=run,
        config=config,
        environment=run.environment,
        family_id=family.family_id,
        matrix=matrix,
        members=_members(family, matrix, config),
        records=run.steps,
        data=data,
        small=small,
        searches=search_examples(data, asked, gallery),
    )


def nearest(family: Family, capacity: float) -> float:
    """`capacity`, if `family` has it, or else the one it has that is nearest."""
    available = family.available((capacity, 1.0, *family.capacities))
    return min(available, key=lambda one: (abs(one - capacity), one))


def member_at(
    family: Family, capacity: float, data: RetrievalData, adapt_batches: int | None = ADAPT_BATCHES
) -> Subnetwork:
    """The subnetwork at `capacity`, with statistics stored in the family or else adapted on training images."""
    stored = family.subnetwork(capacity).adapted
    loader = None if stored or data.train is None else training_images(data, family.preprocessing)
    return prune(family, capacity=capacity, loader=loader, adapt_batches=adapt_batches)


def _members(family: Family, matrix: CompatibilityMatrix, config: TrainConfig) -> tuple[Member, ...]:
    capacities = tuple(sorted((model.capacity for model in matrix.models if model.role != "old"), reverse=True))
    if capacities[0] != 1.0:
        raise ReportError("the run's matrix has no dense network; evaluate it with capacity 1 among the others")
    any_capacity = config.capacities == "any"
    image = torch.randn(1, *family.preprocessing.input_size)
    runs = {f"{capacity:g}": runner(family.subnetwork(capacity), "torch") for capacity in capacities}
    seconds = medians({name: lambda run=run: run(image) for name, run in runs.items()}, ROUNDS)  # type: ignore[misc]
    return tuple(
        Member(
            capacity=cost.capacity,
            trained=cost.capacity in (1.0, *family.capacities) or (any_capacity and cost.capacity >= config.smallest),
            self_test=matrix.at(cost.capacity, cost.capacity),
            cross_test=matrix.at(cost.capacity, 1.0),
            parameters=cost.parameters,
            bytes=cost.bytes,
            macs=cost.macs,
            seconds=seconds[f"{cost.capacity:g}"],
        )
        for cost in cost_table(family, capacities)
    )
