"""The idea in three pictures: a score per connection, nested subnetworks, one space. Inline SVG, themed by the page."""

import math
import random

LAYERS = (4, 5, 5, 3)
CAPACITIES = (1.0, 0.4, 0.13)

Connection = tuple[int, int, int]  # layer, unit in it, unit in the next


def idea() -> str:
    """Three captioned figures."""
    figures = (
        (_network(), "One network", "Every connection has a weight and a learned score, here its thickness."),
        (
            _nested(),
            "Every size inside it",
            "Keep the best-scored share of each layer: 100 %, 40 %, 13 %. The smaller is always part of the larger.",
        ),
        (
            _space(),
            "One space",
            "Whatever its size, a subnetwork puts a picture where the dense network would. "
            "A phone can search the gallery that a server indexed.",
        ),
    )
    cells = (f"<figure>{svg}<figcaption><b>{title}</b>{text}</figcaption></figure>" for svg, title, text in figures)
    return f'<div class="idea">{"".join(cells)}</div>'


def _scores() -> dict[Connection, float]:
    draw = random.Random(4)
    return {
        (layer, a, b): draw.random()
        for layer in range(len(LAYERS) - 1)
        for a in range(LAYERS[layer])
        for b in range(LAYERS[layer + 1])
    }


def _kept(scores: dict[Connection, float], capacity: float) -> list[Connection]:
    kept: list[Connection] = []
    for layer in range(len(LAYERS) - 1):
        ranked = sorted((key for key in scores if key[0] == layer), key=lambda key: -scores[key])
        kept += ranked[: max(1, round(capacity * len(ranked)))]
    return kept


def _draw(connections: dict[Connection, float], left: float, top: float, width: float, height: float, r: float) -> str:
    def place(layer: int, unit: int) -> tuple[float, float]:
        x = left + width * layer / (len(LAYERS) - 1)
        return x, top + height * (unit + 0.5 + (max(LAYERS) - LAYERS[layer]) / 2) / max(LAYERS)

    lines = []
    for (layer, a, b), strength in connections.items():
        (x1, y1), (x2, y2) = place(layer, a), place(layer + 1, b)
        style = f'stroke-width="{0.4 + 2.2 * strength:.2f}" opacity="{0.18 + 0.75 * strength:.2f}"'
        lines.append(f'<path class="link" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" {style}/>')
    units = [place(layer, unit) for layer, count in enumerate(LAYERS) for unit in range(count)]
    dots = [f'<circle class="unit" cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>' for x, y in units]
    return "".join((*lines, *dots))


def _network() -> str:
    return _svg("A network whose connections differ in score", _draw(_scores(), 30, 5, 240, 170, 6))


def _nested() -> str:
    scores = _scores()
    parts = []
    for place, capacity in enumerate(CAPACITIES):
        left = 16 + 98 * place
        kept = {key: scores[key] for key in _kept(scores, capacity)}
        parts.append(_draw(kept, left, 20, 72, 120, 3))
        parts.append(f'<text class="label" x="{left + 36}" y="164">{capacity:.0%}</text>'.replace("%", " %"))
    return _svg("The same network at three capacities", "".join(parts))


def _space() -> str:
    """Three classes as clouds of gallery points; each is asked by a dense (round) and a small (square) network."""
    draw = random.Random(1)
    parts = ['<rect class="plane" x="8" y="8" width="284" height="138" rx="12"/>']
    for colour, (x, y) in enumerate(((70, 52), (222, 50), (146, 108)), start=1):
        cloud = []
        for i in range(9):
            angle, radius = 2 * math.pi * i / 9, 15 + 14 * draw.random()
            px, py = x + 1.5 * radius * math.cos(angle), y + 0.8 * radius * math.sin(angle)
            cloud.append(f'<circle class="gallery" cx="{px:.1f}" cy="{py:.1f}" r="4"/>')
        asked = f'<circle class="asks" cx="{x - 9}" cy="{y}" r="6.5"/>'
        asked += f'<rect class="asks" x="{x + 5}" y="{y - 5}" width="11" height="11"/>'
        parts.append(f'<g class="c{colour}">{"".join(cloud)}{asked}</g>')
    parts.append(
        '<g class="c0"><circle class="gallery" cx="26" cy="164" r="4"/><circle class="asks" cx="112" cy="164" r="6"/>'
        '<rect class="asks" x="209" y="158.5" width="11" height="11"/></g>'
        '<text class="label left" x="35" y="168">gallery</text>'
        '<text class="label left" x="123" y="168">dense asks</text>'
        '<text class="label left" x="226" y="168">13 % asks</text>'
    )
    return _svg("Queries by large and small networks land among the gallery points of their class", "".join(parts))


def _svg(description: str, content: str) -> str:
    return f'<svg viewBox="0 0 300 180" role="img" aria-label="{description}">{content}</svg>'
