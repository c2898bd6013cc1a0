"""The figures and tables of a report: what is reached, the matrix, what each member costs, files that were made."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from prunnet.costs.quantities import format_quantity
from prunnet.network.capacity import format_capacity
from prunnet.report.summary import Member, RunSummary

TEXT, HIDDEN = ' class="text"', ' class="wide"'  # a column of words, one that a phone has no room for
WIDE = ("", HIDDEN, "", "", "", HIDDEN, HIDDEN, "")  # the columns of the cost table

COSTS_TEXT = (
    "Bytes are computed: values in half precision, and the entropy of which connections are kept; a packed file comes "
    "close to that. Multiply-adds (MACs) are for one image. The time is the median of one image in torch on the "
    "machine that made this report. Torch multiplies zeros like other numbers, so its time does not fall with "
    "capacity; bytes do everywhere."
)


@dataclass(frozen=True)
class MadeFile:
    """A file made from the family, to be listed."""

    path: Path
    meaning: str
    bytes: int


def matrix_text(summary: RunSummary) -> str:
    """How to read the matrix, and whether it is compatible."""
    check = summary.matrix.check()
    short = len(check.violations)
    verdict = (
        f"all {check.pairs} pairs of two do at least as well as the smaller one alone"
        if check
        else f"{check.pairs - short} of {check.pairs} pairs of two do at least as well as the smaller one alone; "
        f"the framed {'one falls' if short == 1 else 'ones fall'} short, at worst by "
        f"{100 * (check.violations[0].self_test - check.violations[0].cross_test):.1f} points"
    )
    new = " Sizes in italics were never trained." if summary.untrained else ""
    return escape(
        f"{summary.matrix.metric} in %: a row asks, a column indexed the gallery. On the diagonal one network does "
        f"both; {verdict}.{new}"
    )


def matrix_table(summary: RunSummary) -> str:
    """The matrix as a heatmap; pairs that fall short are framed."""
    matrix = summary.matrix
    low, high = float(matrix.values.min()), float(matrix.values.max())
    short = {(violation.query, violation.gallery) for violation in matrix.check().violations}
    new = {member.capacity for member in summary.untrained}
    heads = "".join(_name_cell(model.name, model.capacity in new, "col") for model in matrix.models)
    rows = []
    for i, query in enumerate(matrix.models):
        cells = []
        for j, gallery in enumerate(matrix.models):
            value = float(matrix.values[i, j])
            classes = ["self"] * (i == j) + ["short"] * ((query.name, gallery.name) in short)
            heat = (value - low) / (high - low) if high > low else 1.0
            cells.append(f'<td class="{" ".join(classes)}" style="--t:{heat:.3f}">{100 * value:.1f}</td>')
        rows.append(f"<tr>{_name_cell(query.name, query.capacity in new, 'row')}{''.join(cells)}</tr>")
    return (
        '<div class="scroll"><table class="matrix"><thead><tr>'
        f'<th scope="col">asks ↓</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _name_cell(name: str, new: bool, scope: str) -> str:
    return f'<th scope="{scope}"{" class=new" if new else ""}>{escape(name)}</th>'


def costs_table(summary: RunSummary) -> str:
    """A row per member: retrieval, bytes, MACs and time."""
    rows = []
    for member in summary.members:
        tag = "" if member.trained else '<span class="tag">never trained</span>'
        cells = (
            f"{format_capacity(member.capacity)}{tag}",
            f"{100 * member.self_test:.1f}",
            f"{100 * member.cross_test:.1f}",
            member.share_of(summary.dense),
            format_quantity(member.bytes, "B"),
            f"{member.parameters:,}",
            format_quantity(member.macs, ""),
            f"{1000 * member.seconds:.2f} ms",
        )
        rows.append(f"<tr>{''.join(f'<td{style}>{cell}</td>' for style, cell in zip(WIDE, cells, strict=True))}</tr>")
    metric = escape(summary.matrix.metric)
    heads = ("capacity", f"{metric} self", f"{metric} cross", "of dense", "bytes", "parameters", "MACs", "time here")
    return _table(heads, rows, WIDE)


def _table(heads: Sequence[str], rows: Iterable[str], styles: Sequence[str]) -> str:
    columns = "".join(f'<th scope="col"{style}>{head}</th>' for style, head in zip(styles, heads, strict=True))
    body = "".join(rows)
    return (
        f'<div class="scroll"><table class="costs"><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def made_table(made: Sequence[MadeFile]) -> str:
    """A row per file."""
    rows = (
        f"<tr><td>{escape(file.path.name)}</td><td>{format_quantity(file.bytes, 'B')}</td>"
        f"<td{TEXT}>{escape(file.meaning)}</td></tr>"
        for file in made
    )
    return _table(("file", "bytes", "what it is"), rows, ("", "", TEXT))


def headline(summary: RunSummary) -> str:
    """What the dense network, the next trained one and the small one reach, and what the small one weighs."""
    dense, metric = summary.dense, escape(summary.matrix.metric)
    cards = [(f"{100 * dense.self_test:.1f}", metric, "by the dense network, queries and gallery")]
    shown = [_next_trained(summary), summary.member(summary.small)]
    for member in dict.fromkeys(m for m in shown if m is not None and m is not dense):
        how = "" if member.trained else ", a size it was never trained at,"
        cards.append(
            (
                f"{100 * member.cross_test:.1f}",
                metric,
                f"with {format_capacity(member.capacity)} of the connections{how} in the dense gallery: "
                f"<strong>{member.share_of(dense)} of dense</strong>",
            )
        )
    smallest = min(summary.members, key=lambda m: abs(m.capacity - summary.small))
    text = f"to carry the {format_capacity(smallest.capacity)} one, instead of {format_quantity(dense.bytes, 'B')}"
    value, unit = format_quantity(smallest.bytes, "B").split(" ")
    cards.append((value, unit, text))
    cells = (f"<div><b>{value} <small>{unit}</small></b><span>{text}</span></div>" for value, unit, text in cards)
    return f'<div class="figures">{"".join(cells)}</div>'


def _next_trained(summary: RunSummary) -> Member:
    """The trained size next above the small one, or the smallest there is."""
    trained = [member for member in summary.members if member.trained]
    return min(trained, key=lambda member: (member.capacity <= summary.small, abs(member.capacity - summary.small)))
