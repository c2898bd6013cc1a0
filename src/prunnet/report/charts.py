"""Line charts as inline SVG, coloured by the page's style sheet, so that they follow its light and dark theme."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 440, 290  # about a phone's width, so that text keeps its size there
LEFT, RIGHT, TOP, BOTTOM = 46, 18, 12, 44


@dataclass(frozen=True)
class Series:
    """One line; `colour` counts the style sheet's, and `marks` are the points drawn: filled, hollow or none."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int
    marks: Sequence[bool] = ()
    dashed: bool = False


@dataclass(frozen=True)
class Axis:
    """What an axis shows; without `ticks` round numbers are found."""

    label: str
    ticks: Sequence[float] = ()
    logarithmic: bool = False
    low: float | None = None
    high: float | None = None


def line_chart(series: Sequence[Series], x: Axis, y: Axis, description: str) -> str:
    """A figure with its legend."""
    across = _Scale(x, [v for line in series for v in line.x], LEFT + 8, WIDTH - RIGHT)
    up = _Scale(y, [v for line in series for v in line.y], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">',
        *(_grid_line(up(tick), _number(tick)) for tick in up.ticks),
        *(_tick(across(tick), _number(tick)) for tick in across.ticks),
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}">{escape(x.label)}</text>',
        f'<text class="axis" transform="rotate(-90)" x="{-(TOP + HEIGHT - BOTTOM) / 2:.0f}" y="12">'
        f"{escape(y.label)}</text>",
        *(_line(line, across, up) for line in series),
        "</svg>",
    ]
    return "\n".join(parts) + _legend(series)


class _Scale:
    """From values to positions between `start` and `end`."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self.logarithmic, self.start, self.end = axis.logarithmic, start, end
        low = min(values, default=0.0) if axis.low is None else axis.low
        high = max(values, default=1.0) if axis.high is None else axis.high
        if high <= low:
            low, high = low - 0.5, low + 0.5
        self.ticks = tuple(axis.ticks) or _round_ticks(low, high)
        self.low, self.high = min(low, self.ticks[0]), max(high, self.ticks[-1])

    def __call__(self, value: float) -> float:
        value, low, high = (math.log(v) if self.logarithmic else v for v in (value, self.low, self.high))
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def _round_ticks(low: float, high: float, about: int = 6) -> tuple[float, ...]:
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough)
    return tuple(step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1))


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _grid_line(y: float, text: str) -> str:
    return (
        f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
        f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">{text}</text>'
    )


def _tick(x: float, text: str) -> str:
    return f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}">{text}</text>'


def _line(line: Series, across: _Scale, up: _Scale) -> str:
    points = [(across(x), up(y)) for x, y in zip(line.x, line.y, strict=True)]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashed = " dashed" if line.dashed else ""
    marks = (
        f'<circle class="mark{"" if filled else " hollow"}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
        for (x, y), filled in zip(points, line.marks, strict=False)
    )
    return f'<g class="c{line.colour}"><path class="line{dashed}" d="M{path}"/>{"".join(marks)}</g>'


def _legend(series: Sequence[Series]) -> str:
    keys = (
        f'<span><i class="key c{line.colour}{" dashed" if line.dashed else ""}"></i>{escape(line.name)}</span>'
        for line in series
    )
    return f'<div class="legend">{"".join(keys)}</div>'
