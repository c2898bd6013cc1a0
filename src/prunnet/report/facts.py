"""Everything a report says about a run, read from its folder or measured here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from prunnet.data import ImageSet, RetrievalData, shuffled_loader
from prunnet.deploy.budget import prune
from prunnet.deploy.latency import medians, runner
from prunnet.evaluation import CompatibilityMatrix, embed
from prunnet.network import PrunableNetwork, Subnetwork, load
from prunnet.network.capacity import check_capacity
from prunnet.network.cost import cost_table
from prunnet.report.errors import ReportError
from prunnet.report.searches import Search, search_examples
from prunnet.training.config import TrainConfig, read_yaml, resolve
from prunnet.training.records import read_records
from prunnet.training.run import load_data

ADAPTED_ON = 30  # batches of training images for a capacity without batch-norm statistics
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
class Facts:
    """What the page shows. `small` is the capacity that searches beside the dense network."""

    run: Path
    config: TrainConfig
    environment: Mapping[str, Any]
    family_id: str
    matrix: CompatibilityMatrix
    members: tuple[Member, ...]
    records: list[dict[str, Any]]
    data: RetrievalData
    small: float
    searches: list[Search]

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


def gather(run: Path, small: float = 0.13, data: RetrievalData | None = None) -> Facts:
    """The facts of a finished run; `data` is loaded as its configuration says unless given."""
    small = check_capacity(small)
    for name in ("config.yaml", "model", "evaluation/matrix.json"):
        if not (run / name).exists():
            raise ReportError(f"{run} is no finished run: it has no {name}; train it first (prunnet train --out {run})")
    config = resolve(read_yaml(run / "config.yaml"))
    net = load(run / "model")
    matrix = CompatibilityMatrix.from_json(run / "evaluation" / "matrix.json")
    data = load_data(config) if data is None else data
    store = run / "evaluation" / "embeddings"
    dense, little = net.subnetwork(1.0), member_at(net, small, data.train)
    gallery = embed(dense, data.gallery, store=store, description="embedding gallery")
    asked = [embed(network, data.query, store=store, description="embedding query") for network in (dense, little)]
    return Facts(
        run=run,
        config=config,
        environment=_read_json(run / "environment.json"),
        family_id=net.family_id,
        matrix=matrix,
        members=_members(net, matrix, config),
        records=[row for row in read_records(run) if "loss" in row],
        data=data,
        small=small,
        searches=search_examples(data, asked, gallery),
    )


def member_at(net: PrunableNetwork, capacity: float, train: ImageSet | None) -> Subnetwork:
    """The subnetwork at `capacity`, with statistics stored in the family or else adapted on `train`."""
    if train is None or capacity == 1.0 or capacity in net.statistics:
        return prune(net, capacity=capacity)
    return prune(net, capacity=capacity, loader=shuffled_loader(train, net.preprocessing), max_batches=ADAPTED_ON)


def _members(net: PrunableNetwork, matrix: CompatibilityMatrix, config: TrainConfig) -> tuple[Member, ...]:
    capacities = tuple(sorted((model.capacity for model in matrix.models), reverse=True))
    if capacities[0] != 1.0:
        raise ReportError("the run's matrix has no dense network; evaluate it with capacity 1 among the others")
    any_capacity = config.capacities == "any"
    image = torch.randn(1, *net.preprocessing.input_size)
    runs = {f"{capacity:g}": runner(net.subnetwork(capacity), "torch") for capacity in capacities}
    seconds = medians({name: lambda run=run: run(image) for name, run in runs.items()}, ROUNDS)  # type: ignore[misc]
    return tuple(
        Member(
            capacity=cost.capacity,
            trained=cost.capacity in (1.0, *net.capacities) or (any_capacity and cost.capacity >= config.smallest),
            self_test=matrix.at(cost.capacity, cost.capacity),
            cross_test=matrix.at(cost.capacity, 1.0),
            parameters=cost.parameters,
            bytes=cost.bytes,
            macs=cost.macs,
            seconds=seconds[f"{cost.capacity:g}"],
        )
        for cost in cost_table(net, capacities)
    )


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}  # tells about the run, is not needed for it
    return content if isinstance(content, dict) else {}
