"""The figures at the top of a report."""

from html import escape

from prunnet.network.capacity import format_capacity
from prunnet.network.units import format_quantity
from prunnet.report.facts import Facts, Member


def headline(facts: Facts) -> str:
    """What the dense network, the next trained one and the small one reach, and what the small one weighs."""
    dense, metric = facts.dense, escape(facts.matrix.metric)
    cards = [(f"{100 * dense.self_test:.1f}", metric, "by the dense network, queries and gallery")]
    shown = [_next_trained(facts), facts.member(facts.small)]
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
    smallest = min(facts.members, key=lambda m: abs(m.capacity - facts.small))
    text = f"to carry the {format_capacity(smallest.capacity)} one, instead of {format_quantity(dense.bytes, 'B')}"
    value, unit = format_quantity(smallest.bytes, "B").split(" ")
    cards.append((value, unit, text))
    cells = (f"<div><b>{value} <small>{unit}</small></b><span>{text}</span></div>" for value, unit, text in cards)
    return f'<div class="figures">{"".join(cells)}</div>'


def _next_trained(facts: Facts) -> Member:
    """The trained size next above the small one, or the smallest there is."""
    trained = [member for member in facts.members if member.trained]
    return min(trained, key=lambda member: (member.capacity <= facts.small, abs(member.capacity - facts.small)))
