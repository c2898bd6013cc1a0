from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.experiments.test_suite_tables import made_up

from prunnet.costs import cost
from prunnet.data import load_data
from prunnet.experiments import SUITES, figures
from prunnet.experiments.figures import SHOWN_CLASSES, few_classes
from prunnet.experiments.jobs import saved_capacities
from prunnet.narrow import Members
from prunnet.network import PrunableNetwork
from prunnet.runs import Run


def test_every_figure_is_drawn_twice(finished: tuple[Path, list[str]]) -> None:
    folder = finished[0] / "tiny" / "figures"
    names = {"capacity", "conflicts", "loss", "norm", "cosine", "cost", "tsne"}
    assert {file.name for file in folder.iterdir()} == {f"{name}.{end}" for name in names for end in ("png", "svg")}
    for name in names:
        assert (folder / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
    drawing = (folder / "capacity.svg").read_text()
    assert all(f"<!-- {label} -->" in drawing for label in ("PrunNet", "Separate", "Added"))
    assert "<!-- Separate -->" not in (folder / "conflicts.svg").read_text()  # separate networks cannot conflict


def test_a_sweep_has_a_point_per_row(tmp_path) -> None:
    suite = SUITES["alpha"]
    made = [made_up(name, np.full((2, 2, 3), 0.1 * place)) for place, name in enumerate(suite.rows, start=1)]
    figures.sweep(suite, made, tmp_path)
    assert (tmp_path / "alpha.png").is_file() and "<!-- 20 % → dense -->" in (tmp_path / "alpha.svg").read_text()
    figures.sweep(SUITES["table1"], made, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_separate_networks_cost_what_they_are(finished: tuple[Path, list[str]]) -> None:
    runs = {name: Run(next(finished[0].glob(f"{name}/*/seed-0"))) for name in ("separate", "prunnet-paper", "added")}
    family, capacities = runs["separate"].network, saved_capacities(runs["separate"])
    assert capacities == [1.0, 0.5, 0.2]
    costs = [cost(family, capacity) for capacity in capacities]
    assert costs[0].macs > costs[1].macs > costs[2].macs and costs[0].bytes > costs[2].bytes
    pruned = runs["prunnet-paper"].network
    assert costs[0].macs == cost(pruned, 1.0).macs
    assert saved_capacities(runs["added"]) == [0.1]


def test_a_network_with_score_maps_costs_what_its_capacity_does(finished: tuple[Path, list[str]]) -> None:
    pruned = Run(next(finished[0].glob("prunnet-paper/*/seed-0"))).network
    assert isinstance(pruned, PrunableNetwork)
    members = Members([pruned.subnetwork(capacity) for capacity in (1.0, 0.2)])  # how such a network is saved
    for capacity in (1.0, 0.2):
        assert cost(members, capacity).macs == cost(pruned, capacity).macs


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200))
def test_smoothing_keeps_length_and_range(values: list[float]) -> None:
    found = figures.smooth(values)
    assert len(found) == len(values) and found[0] == pytest.approx(values[0])
    assert min(values) - 1e-3 <= found.min() and found.max() <= max(values) + 1e-3
    steps, drawn = figures.curve(range(len(values)), values)
    assert len(steps) == len(drawn) <= figures.POINTS and list(drawn) == [found[step] for step in steps]


def test_a_few_classes_of_many() -> None:
    gallery = load_data("glyphs", classes=60, images_per_class=4, size=8).gallery
    few = few_classes(gallery)
    assert few.classes == SHOWN_CLASSES and set(few.labels) == set(range(SHOWN_CLASSES))
    assert len(few) == SHOWN_CLASSES * 3
    assert few.label_names[0] == gallery.label_names[0] and few.label_names[-1] == gallery.label_names[-1]
