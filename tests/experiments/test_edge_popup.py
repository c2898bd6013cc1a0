"""The edge-popup study: weights never change, iterative subnetworks are nested, and scores alone learn."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from prunnet.cli.main import app
from prunnet.data import load
from prunnet.experiments.edge_popup import Conv8, Search, Study, accuracy, classification_split, run_strategy
from prunnet.experiments.edge_popup_report import read_results
from prunnet.network.ranking import rank

STUDY = Study(capacities=(0.5, 0.3), epochs=2, batch_size=32, width=0.125)


@pytest.fixture(scope="module")
def split():
    return classification_split(load("glyphs", classes=9, images_per_class=24, size=16, difficulty=0.2))


def test_glyphs_are_split_within_their_classes(split) -> None:
    _, labels, _, test_labels = split
    assert torch.equal(labels.unique(), test_labels.unique())
    assert len(test_labels) * 3 == len(labels)


def test_scores_alone_find_a_subnetwork_that_recognises(split) -> None:
    images, labels, test_images, test_labels = split
    torch.manual_seed(0)
    network = Conv8((1, 16, 16), 6, width=0.25)
    before = {name: weight.clone() for name, weight in network.named_parameters()}
    search = Search(network, STUDY, seed=0)
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
    assert "nothing has been run" in str(nothing.exception)

    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "iterative, seed 1" in result.output and "| one-shot |" in result.output
    folder = tmp_path / "edge-popup"
    assert {file.name for file in (folder / "figures").iterdir()} == {"edge-popup.png", "edge-popup.svg"}
    found = read_results(folder / "results.csv")
    assert len(found) == 6 and all(accuracies.keys() == {0.5, 0.2} for accuracies in found.values())

    def refuse(*_: object) -> None:
        raise AssertionError("nothing is left to run")

    monkeypatch.setattr("prunnet.experiments.edge_popup_report.run_strategy", refuse)
    again = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "seed" not in again.output.split("Accuracy")[0]
    other = CliRunner().invoke(app, [*arguments, "--set", "epochs=2"])
    assert "holds a study with epochs = 1, not 2: choose another --out" in str(other.exception)


def test_settings_of_other_suites_are_refused() -> None:
    result = CliRunner().invoke(app, ["compare", "edge-popup", "--out", "x", "--set", "integrator=mean"])
    assert "edge-popup has no setting 'integrator'" in str(result.exception)
