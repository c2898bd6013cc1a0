"""The edge-popup study: weights never change, iterative subnetworks are nested, and scores alone learn."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from prunnet.cli.command import app
from prunnet.data import load_data
from prunnet.experiments.edge_popup import (
    STRATEGIES,
    Conv8,
    ScoreSearch,
    Study,
    accuracy,
    classification_split,
    run_strategy,
)
from prunnet.experiments.edge_popup_report import read_accuracies, run_study
from prunnet.network.ranking import rank

STUDY = Study(capacities=(0.5, 0.3), epochs=2, batch_size=32, width=0.125)


@pytest.fixture(scope="module")
def split():
    return classification_split(load_data("glyphs", classes=9, images_per_class=24, size=16, difficulty=0.2))


def test_glyphs_are_split_within_their_classes(split) -> None:
    _, labels, _, test_labels = split
    assert torch.equal(labels.unique(), test_labels.unique())
    assert len(test_labels) * 3 == len(labels)


def test_scores_alone_find_a_subnetwork_that_recognises(split) -> None:
    images, labels, test_images, test_labels = split
    torch.manual_seed(0)
    network = Conv8((1, 16, 16), 6, width=0.25)
    before = {name: weight.clone() for name, weight in network.named_parameters()}
    search = ScoreSearch(network, STUDY, seed=0)
    start = rank(dict(search.scores.items()), (0.5,))[0]
    found = search.find(images, labels, 0.5, epochs=30)
    assert all(torch.equal(weight, before[name]) for name, weight in network.named_parameters())
    untrained = accuracy(network, start, 0.5, images, labels)
    assert accuracy(network, found, 0.5, images, labels) > untrained + 0.2
    assert 0 <= accuracy(network, found, 0.5, test_images, test_labels) <= 1
    inside = search.find(images, labels, 0.3, epochs=1, inside=found)
    for name, mask in inside.items():
        assert not (mask & ~found[name]).any()
        assert int(mask.sum()) == round(0.3 * mask.numel())


def test_strategies_begin_alike_and_are_repeatable(split) -> None:
    one_shot, longer, iterative = (
        list(run_strategy(split, STUDY, strategy, 1)) for strategy in ("one-shot", "one-shot, as long", "iterative")
    )
    assert [capacity for capacity, _ in one_shot] == [0.5, 0.3]
    assert one_shot[0] == longer[0] == iterative[0]
    assert list(run_strategy(split, STUDY, "iterative", 1)) == iterative


def test_the_command_writes_table_and_figure_and_goes_on(tmp_path: Path, monkeypatch) -> None:
    arguments = ["compare", "edge-popup", "--data", "glyphs", "--out", str(tmp_path), "--seeds", "0,1"]
    options = ("data_options.classes=9", "data_options.images_per_class=12", "size=16", "epochs=1", "width=0.125")
    for option in (*options, "capacities=[0.5,0.2]"):
        arguments += ["--set", option]
    planned = CliRunner().invoke(app, [*arguments, "--dry-run"], catch_exceptions=False)
    assert planned.output.count("missing: ") == 6 and not list(tmp_path.iterdir())
    nothing = CliRunner().invoke(app, [*arguments, "--report-only"])
    assert "nothing has been run" in str(nothing.exception) and not list(tmp_path.iterdir())

    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "iterative, seed 1" in result.output and "| one-shot |" in result.output
    folder = tmp_path / "edge-popup"
    assert {file.name for file in (folder / "figures").iterdir()} == {"edge-popup.png", "edge-popup.svg"}
    lines = (folder / "results.csv").read_text().splitlines()
    assert len(lines) == 1 + 3 * 2 * 2 and lines[1].startswith("one-shot,0,0.5,")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr("prunnet.experiments.edge_popup_report.run_strategy", refuse)
    again = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "seed" not in again.output.split("Accuracy")[0]
    other = CliRunner().invoke(app, [*arguments, "--set", "epochs=2"])
    assert "holds a study with epochs = 1, not 2: choose another --out" in str(other.exception)
    more = CliRunner().invoke(app, [*arguments, "--set", "data_options.classes=12"])
    assert "holds a study with data_options = " in str(more.exception)


@pytest.mark.parametrize("strategy", ["one-shot, as long", "iterative"])
def test_a_stopped_search_goes_on_as_if_it_had_not_been(split, tmp_path, strategy) -> None:
    study = replace(STUDY, capacities=(0.5, 0.3, 0.2))
    expected = dict(run_strategy(split, study, strategy, 1))
    known: dict[float, float] = {}
    for _ in range(3):  # killed after each capacity
        capacity, found = next(run_strategy(split, study, strategy, 1, known=known, state=tmp_path))
        known[capacity] = found
    assert known == expected


def test_processes_share_the_searches(tmp_path: Path) -> None:
    data = load_data("glyphs", classes=9, images_per_class=8, size=16)
    study = replace(STUDY, epochs=1, capacities=(0.5, 1 / 3))

    def work(seeds: tuple[int, ...]) -> None:
        run_study(data, tmp_path, study, seeds, say=said.append)

    said: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, [(0, 1), (1, 0)]))
    assert sum("seed" in line for line in said) == 6  # none twice
    for strategy in STRATEGIES:
        assert all(read_accuracies(tmp_path / "edge-popup", (strategy, seed)).keys() == {0.5, 1 / 3} for seed in (0, 1))


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--set", "integrator=mean"], "edge-popup has no setting 'integrator'"),
        (["--preset", "omniglot"], "edge-popup has no --preset"),
        (["--rates", "0.1"], "edge-popup has no --rates"),
        (["--set", "epochs=0"], "epochs must be positive; found 0"),
        (["--set", "size=8"], "Conv-8 needs images of 16 pixels or more; found 8 × 8"),
        (["--seeds", "0.5"], "--seeds takes whole numbers"),
    ],
)
def test_what_the_study_cannot_take_is_refused(tmp_path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["compare", "edge-popup", "--out", str(tmp_path), *arguments])
    assert message in str(result.exception)
