"""The tables of a suite: mean ± standard deviation over seeds, the paper's numbers, and differences to PrunNet."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from prunnet.experiments.paper import FIVE, Pair
from prunnet.experiments.results import Difference, Differences, RowResult
from prunnet.experiments.suites import Suite
from prunnet.network.capacity import format_capacity

NOTHING = "–"


@dataclass(frozen=True)
class Table:
    """Cells of text; `groups` are headings over several columns, (text, columns)."""

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    groups: Sequence[tuple[str, int]] = ()

    def markdown(self) -> str:
        heading = list(self.heading)
        place = 1
        for text, columns in self.groups:  # Markdown has one heading line
            heading[place] = f"{text}: {heading[place]}"
            place += columns
        lines = [_pipes(heading), f"|---|{'---:|' * (len(heading) - 1)}", *map(_pipes, self.rows)]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        lines = [rf"\begin{{tabular}}{{l{'r' * (len(self.heading) - 1)}}}", r"\toprule"]
        if self.groups:
            spans = (rf"\multicolumn{{{columns}}}{{c}}{{{_tex(text)}}}" for text, columns in self.groups)
            lines += [rf" & {' & '.join(spans)} \\", r"\midrule"]
        lines += [
            _ampersands(self.heading),
            r"\midrule",
            *map(_ampersands, self.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def column_name(pair: Pair) -> str:
    """`dense`, `20 % self`, `20 % → dense`, `10 % → 80 %`."""
    query, gallery = pair
    if pair == (1.0, 1.0):
        return "dense"
    if query == gallery:
        return f"{format_capacity(query)} self"
    return f"{format_capacity(query)} → {'dense' if gallery == 1.0 else format_capacity(gallery)}"


def measured(suite: Suite, results: Sequence[RowResult]) -> Table:
    """The table of the suite as measured."""
    columns = [column_name(pair) for pair in suite.columns]
    rows = [
        [result.label, f"{result.rate:g}", str(len(result.runs)), *(cell(result.values(p)) for p in suite.columns)]
        for result in results
    ]
    return Table(["", "lr", "seeds", *columns], rows)


def published(suite: Suite) -> Table | None:
    """The same cells as the paper prints them."""
    rows = [
        [label, *(_number(suite.paper[name].get(pair)) for pair in suite.columns)]
        for name, label in suite.rows.items()
        if name in suite.paper
    ]
    return Table(["", *map(column_name, suite.columns)], rows) if rows else None


def compared(suite: Suite, differences: Differences) -> Table | None:
    """Each row minus the suite's reference, in points."""
    rows = [
        [label, *(_difference(differences.get((name, pair))) for pair in suite.columns)]
        for name, label in suite.rows.items()
        if any(other == name for other, _ in differences)
    ]
    return Table(["", *map(column_name, suite.columns)], rows) if rows else None


def matrices(results: Sequence[RowResult]) -> list[Table]:
    """The paper's layout: a matrix of means per row, three side by side."""
    return _matrices([(result.label, lambda p, r=result: _mean(r.values(p))) for result in results])  # type: ignore[misc]


def published_matrices(suite: Suite) -> list[Table]:
    """The paper's matrices in the same layout."""
    return _matrices(
        [
            (label, lambda p, cells=suite.paper[name]: _number(cells.get(p)))  # type: ignore[misc]
            for name, label in suite.rows.items()
            if name in suite.paper
        ]
    )


def _matrices(blocks: Sequence[tuple[str, Callable[[Pair], str]]]) -> list[Table]:
    names = [format_capacity(capacity) for capacity in FIVE]
    tables = []
    for start in range(0, len(blocks), 3):
        three = blocks[start : start + 3]
        rows = [
            [name, *(text((query, gallery)) for _, text in three for gallery in FIVE)]
            for name, query in zip(names, FIVE, strict=True)
        ]
        tables.append(Table([r"φq \ φg", *names * len(three)], rows, [(label, len(FIVE)) for label, _ in three]))
    return tables


def long_csv(suite: Suite, results: Sequence[RowResult], pairs: Sequence[Pair], differences: Differences) -> str:
    """One line per row and pair: mean, spread, the paper's number, the difference to the reference."""
    lines: list[list[object]] = []
    for result in results:
        for pair in pairs:
            if not (values := result.values(pair)):
                continue
            spread = stdev(values) if len(values) > 1 else ""
            difference = differences.get((result.name, pair))
            compared = (
                [""] * 4
                if difference is None
                else [difference.value, *(difference.interval or ("", "")), difference.seeds_above]
            )
            paper = suite.paper.get(result.name, {}).get(pair, "")
            line = [result.name, result.label, result.rate, len(values), *pair, mean(values), spread, paper]
            lines.append([*line, *compared])
    heading = "row,label,lr,seeds,query_capacity,gallery_capacity,mean,std,paper,difference,lower,upper,seeds_above"
    return csv_text(heading.split(","), lines)


def runs_csv(results: Sequence[RowResult]) -> str:
    """Every run, those of tuning first, every pair of its matrix."""
    lines = []
    for result in results:
        tuning = {job: run for job, run in result.tried.items() if run is not None}
        seeded = {(result.rate, seed): run for seed, run in result.runs.items()}
        for (rate, seed), run in {**tuning, **seeded}.items():
            matrix = run.matrix
            lines += [
                [result.name, rate, seed, query.name, gallery.name, float(matrix.values[i, j])]
                for i, query in enumerate(matrix.models)
                for j, gallery in enumerate(matrix.models)
                if result.means((query.capacity, gallery.capacity))
            ]
    return csv_text(["row", "lr", "seed", "query", "gallery", results[0].matrices[0].metric], lines)


def csv_text(heading: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heading)
    writer.writerows([[f"{v:.6g}" if isinstance(v, float) else v for v in line] for line in lines])
    return text.getvalue()


def cell(values: Sequence[float]) -> str:
    """Mean ± standard deviation."""
    if len(values) < 2:
        return _mean(values)
    return f"{mean(values):.2f} ± {stdev(values):.2f}"


def _mean(values: Sequence[float]) -> str:
    return _number(mean(values) if values else None)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _difference(difference: Difference | None) -> str:
    if difference is None:
        return NOTHING
    text = f"{difference.value:+.2f}"
    if difference.interval is not None:
        text += f" [{difference.interval[0]:+.2f}, {difference.interval[1]:+.2f}]"
    if len(difference.per_seed) > 1:
        text += f" {difference.seeds_above}/{len(difference.per_seed)}"
    return text.replace("-", "−")


def _pipes(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ampersands(cells: Sequence[str]) -> str:
    return rf"{' & '.join(map(_tex, cells))} \\"


_TEX = {
    "_": r"\_",
    "φq \\ φg": r"$\phi_q \backslash \phi_g$",
    " %": r"\,\%",
    "±": r"$\pm$",
    "→": r"$\to$",
    "−": "$-$",
    "α": r"$\alpha$",
    "–": "--",
}


def _tex(text: str) -> str:
    for plain, command in _TEX.items():
        text = text.replace(plain, command)
    return text
