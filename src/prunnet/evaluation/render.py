"""The matrix as text, in the paper's layout: a row per query network φq, a column per gallery network φg."""

import csv
import io
from typing import TYPE_CHECKING, Any

from prunnet.network.capacity import format_capacity

if TYPE_CHECKING:
    from prunnet.evaluation.matrix import CompatibilityMatrix


def table(matrix: "CompatibilityMatrix") -> Any:
    """A rich table; self-tests are bold, cross-tests below the self-test they have to reach are red."""
    from rich.markup import escape
    from rich.table import Table

    result = Table(title=escape(title(matrix)), caption=escape(caption(matrix)), caption_justify="left")
    result.add_column("φq \\ φg", justify="right", style="bold")
    for model in matrix.models:
        result.add_column(model.name, justify="right")
    short = {(violation.query, violation.gallery) for violation in matrix.check().violations}
    for row, query in enumerate(matrix.models):
        cells = []
        for column, gallery in enumerate(matrix.models):
            style = "bold" if row == column else "red" if (query.name, gallery.name) in short else ""
            cells.append(f"[{style}]{_cell(matrix, row, column)}[/]" if style else _cell(matrix, row, column))
        result.add_row(query.name, *cells)
    return result


def markdown(matrix: "CompatibilityMatrix") -> str:
    names = [model.name for model in matrix.models]
    lines = [f"| φq \\ φg | {' | '.join(names)} |", f"|---:|{'---:|' * len(names)}"]
    for row, name in enumerate(names):
        cells = [_cell(matrix, row, column) for column in range(len(names))]
        cells[row] = f"**{cells[row]}**"
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([f"{title(matrix)}", "", *lines, "", caption(matrix), ""])


def latex(matrix: "CompatibilityMatrix") -> str:
    names = [model.name.replace(" %", r"\,\%") for model in matrix.models]
    lines = [rf"% {title(matrix)}; {caption(matrix)}", rf"\begin{{tabular}}{{r{'r' * len(names)}}}", r"\toprule"]
    lines += [rf"$\phi_q \backslash \phi_g$ & {' & '.join(names)} \\", r"\midrule"]
    for row, name in enumerate(names):
        cells = [_cell(matrix, row, column).replace("±", r"$\pm$") for column in range(len(names))]
        cells[row] = rf"\textbf{{{cells[row]}}}"
        lines.append(rf"{name} & {' & '.join(cells)} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def csv_lines(matrix: "CompatibilityMatrix") -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    bounds = matrix.intervals
    header = ["query_family", "query_capacity", "gallery_family", "gallery_capacity", matrix.metric]
    writer.writerow(header if bounds is None else [*header, "lower", "upper"])
    for row, query in enumerate(matrix.models):
        for column, gallery in enumerate(matrix.models):
            pair = [query.family_id, query.capacity, gallery.family_id, gallery.capacity]
            line = [*pair, float(matrix.values[row, column])]
            if bounds is not None:
                line += [float(bounds.lower[row, column]), float(bounds.upper[row, column])]
            writer.writerow(line)
    return text.getvalue()


def title(matrix: "CompatibilityMatrix") -> str:
    return f"{matrix.metric} (%) on {matrix.data}"


def caption(matrix: "CompatibilityMatrix") -> str:
    text = f"{matrix.queries} queries"
    if matrix.unanswered:
        text += f"; {matrix.unanswered} more left out, since nothing in the gallery answers them"
    if matrix.unreadable_queries:
        text += f"; {len(matrix.unreadable_queries)} more not asked, since they cannot be read"
    if matrix.unreadable_gallery:
        text += f"; the gallery lacks {len(matrix.unreadable_gallery)} images that cannot be read"
    if matrix.intervals is not None:
        share = format_capacity(matrix.intervals.confidence)
        text += f"; ± half the {share} bootstrap interval over queries"
    return text


def _cell(matrix: "CompatibilityMatrix", row: int, column: int) -> str:
    text = f"{100 * matrix.values[row, column]:.2f}"
    if matrix.intervals is None:
        return text
    half = (matrix.intervals.upper[row, column] - matrix.intervals.lower[row, column]) / 2
    return f"{text} ± {100 * half:.2f}"
