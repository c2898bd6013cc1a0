"""The figures at the top of a report."""

from html import escape

from prunnet.costs.quantities import format_quantity
from prunnet.network.capacity import format_capacity
from prunnet.report.summary import Member, RunSummary


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
