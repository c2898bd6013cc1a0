import pytest
import torch

from prunnet.experiments import ROWS, SUITES
from prunnet.experiments.comparison import Comparison
from prunnet.experiments.jobs import Job
from prunnet.experiments.rows import SMALL_BACKBONES
from prunnet.network import create_backbone
from prunnet.runs import PRESETS, resolve


@pytest.mark.parametrize("name", ROWS)
def test_every_row_is_a_valid_configuration(name: str) -> None:
    row = ROWS[name]
    config = resolve(PRESETS["omniglot-small"], row.settings, {"old": "runs/a"} if row.old else {})
    evaluated = {*(config.evaluate_capacities or (1.0, *config.capacities))}
    assert all(row.old or capacity in evaluated for pair in row.tuned_by for capacity in pair)
    assert row.old is None or row.old in ROWS


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_every_suite_is_whole(suite) -> None:
    assert set(suite.paper) <= set(suite.rows) <= set(ROWS)
    assert {suite.reference_of(name) for name in suite.rows} <= set(suite.rows)
    order = suite.order()
    assert all(order.index(ROWS[name].old) < order.index(name) for name in order if ROWS[name].old)
    for cells in suite.paper.values():
        assert set(cells) & set(suite.columns)
    if suite.axis:
        assert set(suite.axis[1]) == set(suite.rows)


def test_rows_with_the_same_settings_are_one_row() -> None:
    named = {name: row for name, row in ROWS.items() if not name.startswith(("independent-", "sfsc-"))}
    settings = [(row.old, *sorted((key, repr(value)) for key, value in row.settings.items())) for row in named.values()]
    assert len(set(settings)) == len(settings)


def test_backbone_options_of_a_row_are_added_to_the_common_ones(tmp_path) -> None:
    common = PRESETS["omniglot-small"]
    made = Comparison(SUITES["training"], tmp_path, common)
    settings = made.settings(Job("released", 0.1, 0))
    assert settings is not None
    assert settings["backbone_options"] == {**common["backbone_options"], "zero_init_last": False}
    assert resolve(settings).norm_decay == resolve(settings).weight_decay


@pytest.mark.parametrize("name", SMALL_BACKBONES)
def test_small_backbones_take_small_grey_images(name: str) -> None:
    network = SMALL_BACKBONES[name]
    backbone = create_backbone(network["backbone"], **network["backbone_options"]).eval()
    with torch.no_grad():
        assert backbone(torch.zeros(2, 1, 28, 28)).shape[0] == 2
