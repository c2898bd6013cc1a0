import io
import json
from pathlib import Path

import numpy as np
import pytest

from prunnet.errors import EvaluationError
from prunnet.evaluation import CompatibilityMatrix, Model

VALUES = np.array([[0.9, 0.8, 0.5], [0.85, 0.8, 0.55], [0.7, 0.5, 0.6]])


def matrix(values: np.ndarray = VALUES, **options: object) -> CompatibilityMatrix:
    models = tuple(Model(capacity, "a") for capacity in (1.0, 0.4, 0.135))
    return CompatibilityMatrix(models, values, "mAP", "patches", queries=10, **options)


def test_check_names_the_cross_tests_below_the_smaller_ones_self_test() -> None:
    verdict = matrix().check()
    assert not verdict
    found = {(v.query, v.gallery): (v.cross_test, v.self_test, v.reference) for v in verdict.violations}
    assert found == {
        ("100 %", "13.5 %"): (0.5, 0.6, "13.5 %"),
        ("40 %", "13.5 %"): (0.55, 0.6, "13.5 %"),
        ("13.5 %", "40 %"): (0.5, 0.6, "13.5 %"),
    }
    assert "M(40 %, 13.5 %) = 55.00 is below M(13.5 %, 13.5 %) = 60.00 by 5.00" in str(verdict)
    assert verdict.violations[-1].query == "40 %", "worst first"
    assert [v.query for v in matrix().check(tolerance=0.06).violations] == ["100 %", "13.5 %"]
    assert matrix().check(tolerance=0.11)


def test_equal_is_compatible() -> None:
    verdict = matrix(np.full((3, 3), 0.5)).check()
    assert verdict
    assert "all 6 cross-tests" in str(verdict)


def test_across_families_the_old_ones_self_test_counts() -> None:
    models = (Model(0.1, "b", "new"), Model(1.0, "a", "old"))
    values = np.array([[0.9, 0.6], [0.4, 0.5]])
    verdict = CompatibilityMatrix(models, values, "mAP", "patches", 10).check()
    assert [(v.query, v.gallery, v.reference) for v in verdict.violations] == [("old 100 %", "new 10 %", "old 100 %")]


def test_json_comes_back(tmp_path: Path) -> None:
    original = matrix(per_query=np.repeat(VALUES[:, :, None], 10, axis=2), unanswered=2).bootstrap(20)
    original.to_json(tmp_path / "m.json")
    read = CompatibilityMatrix.from_json(tmp_path / "m.json")
    assert (read.models, read.metric, read.data) == (original.models, original.metric, original.data)
    assert (read.queries, read.unanswered) == (10, 2)
    np.testing.assert_array_equal(read.values, original.values)
    assert read.intervals is not None
    assert read.to_json() == original.to_json()
    np.testing.assert_allclose(read.per_query, original.per_query, rtol=1e-6)
    for damage in (b"", (tmp_path / "m.npy").read_bytes()[:-1]):
        (tmp_path / "m.npy").write_bytes(damage)
        without = CompatibilityMatrix.from_json(tmp_path / "m.json")
        assert without.per_query is None and without.to_json() == original.to_json()
        with pytest.raises(EvaluationError, match="no scores per query"):
            without.bootstrap()


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", json.dumps({"format": "other"}), matrix().to_json().replace("0.9", "")]
)
def test_a_foreign_or_damaged_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "m.json").write_text(content)
    with pytest.raises(EvaluationError, match=r"m\.json: not a prunnet compatibility matrix"):
        CompatibilityMatrix.from_json(tmp_path / "m.json")
    with pytest.raises(EvaluationError, match=r"absent\.json: cannot be read"):
        CompatibilityMatrix.from_json(tmp_path / "absent.json")


def test_markdown_has_a_row_per_query_network() -> None:
    lines = matrix(unanswered=3).to_markdown().splitlines()
    assert lines[0] == "mAP (%) on patches"
    assert lines[2] == "| φq \\ φg | 100 % | 40 % | 13.5 % |"
    assert lines[4] == "| 100 % | **90.00** | 80.00 | 50.00 |"
    assert lines[6] == "| 13.5 % | 70.00 | 50.00 | **60.00** |"
    assert lines[8] == "10 queries; 3 more left out, since nothing in the gallery answers them"


def test_latex() -> None:
    text = matrix().to_latex()
    assert r"$\phi_q \backslash \phi_g$ & 100\,\% & 40\,\% & 13.5\,\% \\" in text
    assert r"40\,\% & 85.00 & \textbf{80.00} & 55.00 \\" in text
    assert text.count("{") == text.count("}")


def test_csv_has_a_line_per_pair_in_full_precision() -> None:
    values = VALUES + 1e-9
    lines = matrix(values).to_csv().splitlines()
    assert lines[0] == "query_family,query_capacity,gallery_family,gallery_capacity,mAP"
    assert lines[2] == f"a,1.0,a,0.4,{float(values[0, 1])!r}"
    assert len(lines) == 10


def test_terminal_table_fits_six_capacities_in_a_usual_window() -> None:
    from rich.console import Console

    console = Console(width=80, record=True, file=io.StringIO())
    models = tuple(Model(c, "a") for c in (1, 0.8, 0.6, 0.4, 0.2, 0.13))
    console.print(CompatibilityMatrix(models, np.full((6, 6), 0.12345), "mAP", "patches", 10))
    text = console.export_text()
    assert text.count("12.3") == 36
    assert "φq \\ φg" in text
    assert "10 queries" in text


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_figures(tmp_path: Path, suffix: str) -> None:
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    drawn = matrix(per_query=np.repeat(VALUES[:, :, None], 10, axis=2)).bootstrap(20)
    for path in (drawn.heatmap(tmp_path / f"h.{suffix}"), matrix().curve(tmp_path / f"c.{suffix}")):
        assert path.read_bytes().startswith(start)
    assert drawn.curve(tmp_path / f"c.{suffix}").stat().st_size > 5000
    assert sorted(file.name for file in tmp_path.iterdir()) == [f"c.{suffix}", f"h.{suffix}"]
    with pytest.raises(EvaluationError, match=r"a figure ends in \.png"):
        matrix().heatmap(tmp_path / "h.gif")


def test_figures_by_capacity() -> None:
    assert matrix().at(0.4, 1.0) == 0.85
    with pytest.raises(EvaluationError, match=r"no capacity 0\.3 in this matrix: it has 1, 0\.4, 0\.135"):
        matrix().at(0.3, 1.0)
