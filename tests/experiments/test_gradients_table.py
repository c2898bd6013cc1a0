import json
from pathlib import Path

import pytest

from prunnet.experiments.gradients_table import COLUMNS, gradients_table
from prunnet.experiments.results import RowResult
from prunnet.experiments.rows import ROWS
from prunnet.runs import Run


def row(name: str, *runs: Run) -> RowResult:
    return RowResult(name, name, ROWS["prunnet-paper"], 0.1, dict(enumerate(runs)))


def step(number: int, **changes: object) -> dict[str, object]:
    """A step whose conflicts fall from 20 to 1 and whose smallest pass slowly agrees with the dense one."""
    return {
        "step": number, "loss": {"1": 0.5, "0.6": 0.7, "0.2": 1.0}, "conflicts": 0.25,
        "first_layer_conflicts": 21 - number, "cosine": {"0.6": 0.9, "0.2": number / 16},
        "norm": {"1": 1.0, "0.6": 4.0, "0.2": 2.0}, "sum_cosine": 1 - number / 96, **changes,
    }  # fmt: skip


def written(folder: Path, steps: list[dict[str, object]]) -> Run:
    folder.mkdir()
    run = Run(folder)
    run.metrics_file.write_text("".join(json.dumps(one) + "\n" for one in steps))
    return run


def test_a_line_says_how_the_passes_of_a_row_disagreed(tmp_path) -> None:
    steps = [step(number) for number in range(1, 21)]
    evaluated = {"step": 20, "mAP": 0.5}  # no gradients
    first = written(tmp_path / "a", [*steps, evaluated])
    second = written(tmp_path / "b", [step(number, conflicts=0.75) for number in range(1, 21)])
    table = gradients_table([row("ours", first, second)])
    assert table is not None and table.heading == ["", *COLUMNS]
    found = dict(zip(table.heading, table.rows[0], strict=True))
    assert found[""] == "ours"
    assert found["conflicts in the first conv, early"] == "19.50 ± 0.00" and found["late"] == "1.50 ± 0.00"
    assert found["in all layers (%), late"] == "50.00 ± 35.36"
    assert found["cosine to dense, early"] == "0.09 ± 0.00" and found["cosine to dense, late"] == "1.22 ± 0.00"
    assert found["cosine to the sum, early"] == "0.98 ± 0.00" and found["cosine to the sum, late"] == "0.80 ± 0.00"
    assert found["norms, late"] == "4.00 ± 0.00"
    assert found["dense loss, late"] == "0.50 ± 0.00" and found["smallest capacity's loss, late"] == "1.00 ± 0.00"


@pytest.mark.parametrize("missing", ["sum_cosine", "everything"])
def test_networks_that_share_no_weight_have_no_line(tmp_path, missing: str) -> None:
    steps = [] if missing == "everything" else [{"step": 1, "loss": {"1": 0.5}}]
    assert gradients_table([row("apart", written(tmp_path / "a", steps))]) is None


def test_the_section_of_a_suite(finished: tuple[Path, list[str]]) -> None:
    section = (finished[0] / "tiny" / "table.md").read_text().split("## Gradients")[1].split("## Fair play")[0]
    assert "| PrunNet | " in section and "| Separate | " not in section and "| Added | " not in section
