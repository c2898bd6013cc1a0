"""The paper's figures: that they are whole and agree with each other, and are those that its text prints, if at hand.

`PRUNNET_PAPER` names a folder with the LaTeX text of the paper; without it, shared/paper beside the repository.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import pytest

from prunnet.experiments import SUITES, paper
from prunnet.experiments.paper import ALL_PAIRS, FIVE, NEW, SELF, SELF_AND_CROSS, Cells, Pair

FOLDER = Path(os.environ.get("PRUNNET_PAPER", Path(__file__).parents[3] / "shared" / "paper"))
TEXT = "".join(file.read_text() for file in sorted(FOLDER.glob("*.txt")))
at_hand = pytest.mark.skipif(not TEXT, reason="the text of the paper is not at hand")

MEANS = {
    "table1": "Tab:performance_landmark",
    "new-capacity": "Tab:new capacities",
    "backbones": "Tab: different model architecture",
    "ablation": "Tab:ablation",
    "structured": "Tab: structured",
}
"""Tables of means over three data sets, by suite."""
DETAILS = {
    "table1": "Tab:performance_landmark_supple",
    "new-capacity": "Tab:new capacity supple",
    "backbones": "Tab: different model architecture supplement",
    "ablation": "Tab:ablation_suppl",
    "n": "Tab:ablation_suppl",
}
"""The same for each data set."""

WITHOUT_DETAILS = {"frozen-weights"}
PRINTED_OTHERWISE = {
    ("table1", "asymmetric-s-switchnet", (1.0, 0.4)),  # 32.36, the mean is 32.37
    ("new-capacity", "asymmetric-s-switchnet+bct", (0.1, 0.1)),  # 40.02, the mean is 41.02
    ("ablation", "pareto", (0.2, 0.2)),  # 43.84, the mean is 43.85
}
"""Where the paper's own tables disagree."""
ROUNDING = 0.011
"""Half a hundredth of the mean and half of each of its parts, and what a float adds."""

Table = dict[str, list[Cells]]
"""Cells of every row with a label; a list has one for each data set."""


def rows(label: str) -> Iterator[list[str]]:
    """Cells of the rows of a LaTeX table as plain text."""
    (table,) = (part for part in TEXT.split("\\begin{table*}") if f"\\label{{{label}}}" in part)
    body = re.sub(r"\\(?:multirow|multicolumn)\{.*?\}\{.*?\}", "", table.partition("\\toprule")[2])
    body = re.sub(r"\\(?:midrule|bottomrule|rowcolor\[.*?\]\{.*?\}|emph|textbf)|[{}$]", "", body)
    return ([cell.strip() for cell in row.split("&")] for row in body.split("\\\\"))


def plain(label: str) -> str:
    """A row's name, however it is spelt."""
    text = re.sub(r"\s", "", label.lower()).replace("ours", "prunnet").replace("optimization", "optimisation")
    text = text.replace("independently", "independent").replace("(str.)", "(structured)")
    return text.replace("(unstr.)", "(unstructured)").replace("maps(n=4)", "maps")


def cells(pairs: Sequence[Pair], texts: Sequence[str]) -> Cells:
    return {pair: float(text) for pair, text in zip(pairs, texts, strict=False) if text not in ("--", "")}


def rows_of_pairs(label: str, pairs: Sequence[Pair]) -> Table:
    """A table with a row per method and a column per pair; groups of rows may have a name of their own."""
    table: Table = defaultdict(list)
    group = ""
    for row in rows(label):
        values = [cell for cell in row if re.fullmatch(r"[\d.]+|--", cell)]
        if len(values) < 6:
            continue
        names = row[: row.index(values[0])]
        group = (names[0] or group) if len(names) > 1 else ""
        table[plain(f"{group}: {names[-1]}" if group else names[-1])].append(cells(pairs, values))
    return table


def matrices(label: str) -> Table:
    """A table of matrices, three beside each other, each under the name of its method."""
    table: Table = defaultdict(list)
    names: list[str] = []
    collected: list[dict[Pair, float]] = []
    for row in rows(label):
        if len(row) == 4:
            names, collected = row[1:], [{}, {}, {}]
        elif len(row) == 16 and row[0].startswith("\\phi"):
            query = FIVE[("\\phi_0", "\\phi_80\\%", "\\phi_60\\%", "\\phi_40\\%", "\\phi_20\\%").index(row[0])]
            for place, matrix in enumerate(collected):
                pairs = [(query, gallery) for gallery in FIVE]
                matrix.update(cells(pairs, row[1 + 5 * place : 6 + 5 * place]))
            if query == FIVE[-1]:
                for name, matrix in zip(names, collected, strict=True):
                    table[plain(name)].append(matrix)
    return table


def table_of(suite: str, label: str) -> Table:
    if suite == "table1":
        return matrices(label)
    return rows_of_pairs(label, NEW if suite == "new-capacity" else SELF_AND_CROSS)


def label_of(suite: str, name: str) -> str:
    """What the paper's tables call a row of a suite."""
    label = SUITES[suite].rows[name]
    return plain({"n": f"Ours ({label})", "structured": f"Landmark: {label}"}.get(suite, label))


@pytest.mark.parametrize("suite", [suite for suite in SUITES.values() if suite.paper], ids=lambda suite: suite.name)
def test_every_row_has_one_of_the_layouts(suite) -> None:
    layouts = [set(pairs) for pairs in (ALL_PAIRS, SELF_AND_CROSS, SELF, NEW)]
    assert all(set(values) in layouts for values in suite.paper.values())
    assert all(0 < value < 100 for values in suite.paper.values() for value in values.values())


def test_matrices_have_every_pair_of_compatible_networks() -> None:
    assert {name for name, values in paper.TABLE1.items() if set(values) != set(ALL_PAIRS)} == {"independent"}


def test_prunnet_is_the_same_in_every_table() -> None:
    whole = paper.TABLE1["prunnet-paper"]
    for table in (paper.N, paper.ABLATION, paper.ALPHA, paper.STRUCTURED):
        assert all(whole[pair] == value for pair, value in table["prunnet-paper"].items())


@at_hand
@pytest.mark.parametrize("suite", MEANS)
def test_means_are_as_printed(suite: str) -> None:
    table = table_of(suite, MEANS[suite])
    for name, values in SUITES[suite].paper.items():
        (shown,) = table[label_of(suite, name)]
        assert shown and all(values[pair] == value for pair, value in shown.items()), name


@at_hand
@pytest.mark.parametrize("suite", DETAILS)
def test_means_are_those_of_the_three_data_sets(suite: str) -> None:
    table = table_of(suite, DETAILS[suite])
    rows = {name: table[label_of(suite, name)] for name in SUITES[suite].paper if name not in WITHOUT_DETAILS}
    assert all(len(data_sets) == 3 for data_sets in rows.values())
    off = {
        (name, pair)
        for name, data_sets in rows.items()
        for pair, value in SUITES[suite].paper[name].items()
        if abs(mean(data_set[pair] for data_set in data_sets) - value) > ROUNDING
    }
    assert off == {(name, pair) for of, name, pair in PRINTED_OTHERWISE if of == suite}
