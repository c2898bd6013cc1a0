import csv
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import pytest
from tests.experiments.conftest import COLUMNS, RATES, SEEDS, SUITE, TINY

from prunnet.errors import SuiteError
from prunnet.evaluation import CompatibilityMatrix, Model
from prunnet.experiments import SUITES
from prunnet.experiments import suite_tables as tables
from prunnet.experiments.comparison import Comparison
from prunnet.experiments.results import RowResult, difference, differences, gather
from prunnet.experiments.rows import ROWS, Row
from prunnet.runs import Run


@pytest.fixture(scope="module")
def results(finished: tuple[Path, list[str]]) -> list[RowResult]:
    return gather(Comparison(SUITE, finished[0], TINY, SEEDS, RATES))


def made_up(name: str, *per_seed: np.ndarray, role: str = "", row: Row = ROWS["prunnet-paper"]) -> RowResult:
    """A row whose runs have these scores `[models, models, queries]` at 100 and 20 %."""
    result = RowResult(name, name, row, 0.1, {seed: Path(str(seed)) for seed in range(len(per_seed))})
    models = (Model(1.0, "f", role), Model(0.2, "g", "new" if role else ""))
    result.__dict__["matrices"] = [
        CompatibilityMatrix(models, scores.mean(-1), "mAP", "data", scores.shape[-1], per_query=scores)
        for scores in per_seed
    ]
    return result


def test_cells_are_what_the_matrices_say(finished, results: list[RowResult]) -> None:
    out, _ = finished
    with (out / "tiny" / "table.csv").open() as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        pair = float(line["query_capacity"]), float(line["gallery_capacity"])
        runs = out.glob(f"{line['row']}/lr-{line['lr']}/seed-[01]")
        values = [100 * Run(run).matrix.at(*pair) for run in runs]
        assert len(values) == int(line["seeds"]) == 2
        assert float(line["mean"]) == pytest.approx(mean(values), rel=1e-5)
        assert float(line["std"]) == pytest.approx(stdev(values), rel=1e-5)
    found = {(line["row"], float(line["query_capacity"]), float(line["gallery_capacity"])) for line in lines}
    assert found == {
        *(("prunnet-paper", *pair) for pair in COLUMNS[:3]),
        *(("added", *pair) for pair in COLUMNS),
        *(("separate", *pair) for pair in COLUMNS[:2]),  # no cross-tests
    }
    assert [line["paper"] for line in lines if line["paper"]] == ["45.41"]
    text = (out / "tiny" / "table.md").read_text()
    prunnet = next(result for result in results if result.name == "prunnet-paper")
    assert f"| PrunNet | {prunnet.rate:g} | 2 | {tables.cell(prunnet.values((1.0, 1.0)))} | " in text
    assert "| Separate | 45.41 | – | – | – |" in text and "mAP (%) on glyphs, 8 queries" in text


def test_runs_csv_has_every_run_and_pair(finished) -> None:
    out, _ = finished
    with (out / "tiny" / "runs.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["row"], line["lr"], line["seed"]) for line in lines} == {
        (run.parent.parent.name, run.parent.name[3:], run.name[5:]) for run in out.glob("*/lr-*/seed-*")
    }
    prunnet = [line for line in lines if line["row"] == "prunnet-paper" and line["seed"] == "0"]
    assert len(prunnet) == 9
    separate = [line for line in lines if line["row"] == "separate"]
    assert all(line["query"] == line["gallery"] for line in separate)


def test_fair_play_tells_budgets_apart(finished) -> None:
    text = (finished[0] / "tiny" / "table.md").read_text()
    lines = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in text.split("## Fair play")[1].splitlines()}
    assert [lines[label][1:4] for label in ("Separate", "PrunNet", "Added")] == [
        ["1", "64", "3"], ["1", "64", "3"], ["1", "64", "1"],
    ]  # fmt: skip
    assert all(lines[label][5].count(":") == 2 for label in ("Separate", "PrunNet", "Added"))
    assert lines["Added"][-1] == "a family trained before |"
    trained = {label: int(lines[label][4].replace(",", "")) for label in ("PrunNet", "Added")}
    assert trained["PrunNet"] > trained["Added"] > 0


def test_differences_are_paired_over_queries() -> None:
    draw = np.random.default_rng(0)
    easy_or_hard = draw.random((1, 1, 400))
    first, second = (easy_or_hard + draw.normal(shift, 0.01, (2, 2, 400)) for shift in (0.05, 0.0))
    better, reference = made_up("better", first, first), made_up("reference", second)
    found = difference(better, reference, (0.2, 1.0))
    assert found is not None and found.value == pytest.approx(100 * (first - second)[1, 0].mean())
    assert found.interval is not None
    low, high = found.interval
    assert (
        low < found.value < high and high - low < 1
    )  # unpaired, the spread of queries would make it ten times as wide
    assert difference(better, reference, (0.2, 0.6)) is None
    assert found.per_seed == [found.value] and found.seeds_above == 1  # the reference has one seed only
    unknown = made_up("unknown", second)
    unknown.__dict__["matrices"] = [replace(matrix, per_query=None) for matrix in unknown.matrices]
    found = difference(better, unknown, (0.2, 1.0))
    assert found is not None and found.interval is None


def test_a_difference_says_in_how_many_seeds_it_holds() -> None:
    reference = made_up("reference", *(np.full((2, 2, 3), value) for value in (0.5, 0.4, 0.6)))
    other = made_up("other", *(np.full((2, 2, 3), value) for value in (0.6, 0.3, 0.9)))
    found = difference(other, reference, (1.0, 1.0))
    assert found is not None and found.per_seed == pytest.approx([10, -10, 30]) and found.value == pytest.approx(10)
    assert found.seeds_above == 2
    suite = replace(
        SUITES["table1"], rows={"reference": "Reference", "other": "Other"}, reference="reference", paper={}
    )
    found = differences(suite, [reference, other], [(1.0, 1.0)])
    table = tables.compared(suite, found)
    assert table is not None and table.rows[0][1] == "+10.00 [+10.00, +10.00] 2/3"
    csv_line = tables.long_csv(suite, [other], [(1.0, 1.0)], found).splitlines()[1]
    assert csv_line.endswith(",10,10,10,2")


def test_only_seeds_that_both_have_are_compared() -> None:
    scores = [np.full((2, 2, 3), value) for value in (0.5, 0.7)]
    reference, other = made_up("reference", *scores), made_up("other", scores[1])
    found = difference(other, reference, (1.0, 1.0))
    assert found is not None and found.per_seed == pytest.approx([20])


def test_other_queries_cannot_be_paired() -> None:
    with pytest.raises(SuiteError, match="answered other queries"):
        difference(made_up("a", np.ones((2, 2, 4))), made_up("b", np.ones((2, 2, 5))), (1.0, 1.0))


def test_a_network_of_the_old_family_stands_in() -> None:
    scores = np.arange(8.0).reshape(2, 2, 2) / 10
    result = made_up("a", scores, role="old")
    assert result.values((0.2, 1.0)) == [pytest.approx(100 * scores[1, 0].mean())]


def test_the_paper_layout_has_three_matrices_side_by_side() -> None:
    suite = SUITES["table1"]
    printed = tables.published_matrices(suite)
    assert len(printed) == 3 and all(len(table.heading) == 16 and len(table.rows) == 5 for table in printed)
    first = printed[0].rows
    assert first[0][1:7] == ["45.41", "–", "–", "–", "–", "43.94"] and first[4][15] == "39.69"
    assert printed[2].rows[4][11:] == ["45.61", "45.63", "45.63", "45.74", "45.63"]
    latex = printed[2].latex()
    assert r"\multicolumn{5}{c}{PrunNet}" in latex and latex.count(r"\\") == 7
    assert r"$\phi_q \backslash \phi_g$ & 100\,\% & 80\,\%" in latex
    measured = tables.matrices([made_up("a", np.full((2, 2, 3), 0.5))])
    assert measured[0].rows[0] == ["100 %", "50.00", "–", "–", "–", "50.00"]


def test_each_backbone_is_compared_with_its_own_prunnet() -> None:
    suite = SUITES["backbones"]
    scores = np.full((2, 2, 3), 0.5)
    made = [made_up(name, scores * scale) for name, scale in (("sfsc-resnet50", 1.0), ("prunnet-resnet50", 1.2))]
    made += [made_up("prunnet-vit-small", scores)]
    found = differences(suite, made, suite.columns)
    assert {name for name, _ in found} == {"sfsc-resnet50"}
    assert found["sfsc-resnet50", (1.0, 1.0)].value == pytest.approx(-10)
    table = tables.compared(suite, found)
    assert table is not None and table.rows[0][1].startswith("−10.00")


def test_names_of_columns() -> None:
    pairs = ((1.0, 1.0), (0.2, 0.2), (0.2, 1.0), (0.1, 0.8))
    assert [tables.column_name(pair) for pair in pairs] == ["dense", "20 % self", "20 % → dense", "10 % → 80 %"]
