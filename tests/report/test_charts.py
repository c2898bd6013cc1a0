import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from prunnet.report.charts import HEIGHT, WIDTH, Axis, Series, line_chart
from prunnet.report.idea import idea

numbers = st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-3)
lines = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6)
NAME = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), max_size=12)


def parse(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{text}</div>")


@given(lines, NAME, NAME)
def test_any_line_is_a_well_formed_chart_within_its_frame(points, name, label) -> None:
    x, y = [p[0] for p in points], [p[1] for p in points]
    chart = parse(line_chart([Series(name, x, y, 1, [True] * len(x))], Axis(label), Axis(label), name))
    marks = chart.findall(".//circle")
    assert len(marks) == len(points)
    assert all(0 <= float(m.get("cx", "")) <= WIDTH and 0 <= float(m.get("cy", "")) <= HEIGHT for m in marks)
    assert chart.find("svg").get("aria-label") == name  # type: ignore[union-attr]
    assert "".join(chart.find("div").itertext()) == name  # type: ignore[union-attr]


def test_larger_values_lie_higher_and_to_the_right() -> None:
    series = Series("a", [5, 10, 100], [1, 2, 3], 1, [True, False, True])
    chart = parse(line_chart([series], Axis("x", (5, 10, 100), logarithmic=True), Axis("y"), "d"))
    marks = chart.findall(".//circle")
    assert [float(m.get("cx", "")) for m in marks] == sorted(float(m.get("cx", "")) for m in marks)
    heights = [float(m.get("cy", "")) for m in marks]
    assert heights == sorted(heights, reverse=True)
    assert [m.get("class") for m in marks] == ["mark", "mark hollow", "mark"]


def test_the_networks_of_the_idea_are_nested() -> None:
    pictures = parse(idea()).findall(".//svg")
    drawn = [link.attrib for link in pictures[1].findall("path")]
    strengths = [(a["stroke-width"], a["opacity"]) for a in drawn]
    whole = [(a["stroke-width"], a["opacity"]) for a in (p.attrib for p in pictures[0].findall("path"))]
    assert set(strengths) == set(whole)
    labels = [text.text for text in pictures[1].findall("text")]
    assert labels == ["100 %", "40 %", "13 %"]
    assert len(drawn) == sum(sum(max(1, round(c * n)) for n in (20, 25, 15)) for c in (1.0, 0.4, 0.13))
    assert not re.search(r"https?:", idea())
