import re
import shlex
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import click
import numpy as np
import pytest
import typer
from tests.report.conftest import TINY

from prunnet.cli.command import app
from prunnet.cli.report import report as command
from prunnet.data import ImageSet, RetrievalData, load_data
from prunnet.errors import PrunNetError
from prunnet.evaluation import CompatibilityMatrix
from prunnet.report import MadeFile, write_report
from prunnet.report.page import COMMANDS

VOID = {"meta", "link", "img"}


class Page(HTMLParser):
    """Collects tags and attributes, and fails on an element closed out of turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def find(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_file_needs_nothing_else_and_runs_nothing(report: Path) -> None:
    page = Page(report.read_text())
    assert report.name == "report.html"
    assert not page.find("script") and not page.find("iframe")
    sources = [value for _, a in page.tags for key, value in a.items() if key in ("src", "href")]
    assert sources and all(value.startswith("data:") for value in sources if value)
    style = report.read_text().partition("</style>")[0]
    assert "url(" not in style and "@import" not in style
    assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes)


def test_it_shows_the_matrix_the_costs_and_what_was_never_trained(report: Path, run: Path) -> None:
    text = report.read_text()
    matrix = CompatibilityMatrix.from_json(run / "evaluation" / "matrix.json")
    cells = re.findall(r'<td class="[^"]*" style="--t:([\d.]+)">([\d.]+)</td>', text)
    assert [float(value) for _, value in cells] == pytest.approx(100 * matrix.values.ravel(), abs=0.051)
    heat = [float(t) for t, _ in cells]
    assert min(heat) == 0.0 and max(heat) == 1.0
    assert text.count('class="tag">never trained') == 1 and "13 %<span" in text
    assert text.count('class="mark hollow"') == 3  # two lines over capacity, one over bytes


def test_right_and_wrong_answers_are_marked(report: Path) -> None:
    page = Page(report.read_text())
    hits = [a for a in page.find("figure") if "hit" in (a.get("class") or "")]
    assert len(hits) == 8 * 2 * 5  # queries, networks, answers
    pictures = [a["alt"] or "" for a in page.find("img") if not (a["alt"] or "").startswith("query")]
    assert sum(alt.startswith("right: ") for alt in pictures) == sum(h["class"] == "hit right" for h in hits)
    assert all((h["title"] or "") in alt for h, alt in zip(hits, pictures, strict=True))


def test_hostile_names_stay_text(run: Path, tmp_path: Path) -> None:
    glyphs = load_data("glyphs", **TINY["data_options"])
    evil = '<script>alert("1")</script>&'

    def renamed(images: ImageSet) -> ImageSet:
        return ImageSet(images.pixels, images.labels, [f"{evil}{i}" for i in range(images.classes)], images.ids)

    data = RetrievalData(evil, glyphs.train, renamed(glyphs.query), renamed(glyphs.gallery), glyphs.protocol)
    made = [MadeFile(Path(f"{evil[:7]}.prun"), evil, 12345)]
    text = write_report(run, tmp_path / "out" / "evil.html", data=data, made=made).read_text()
    page = Page(text)
    assert not page.find("script") and evil in unescape(text) and "12.35 kB" in text


def test_another_capacity_is_adapted_and_searched(run: Path, tmp_path: Path) -> None:
    text = write_report(run, tmp_path / "r.html", capacity=0.3).read_text()
    assert '<div class="found"><span>30 %</span>' in text


def test_a_second_report_says_the_same_apart_from_times(run: Path, report: Path, tmp_path: Path) -> None:
    again = write_report(run, tmp_path / "r.html").read_text()
    assert re.sub(r"[\d.]+ ms", "", again) == re.sub(r"[\d.]+ ms", "", report.read_text())


def test_errors_name_what_is_missing(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PrunNetError, match="is no run: train it first"):
        write_report(tmp_path)
    with pytest.raises(PrunNetError, match=r"for 13 % write 0\.13"):
        write_report(run, tmp_path / "r.html", capacity=13)
    assert not np.any([file.suffix == ".html" for file in tmp_path.iterdir()])


def test_the_command_prints_where_the_report_is(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command(run, tmp_path / "a.html", 0.2)
    assert capsys.readouterr().out == f"{tmp_path / 'a.html'}\n"
    assert "<span>20 %</span>" in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize("line", [line for _, line in COMMANDS])
def test_the_commands_it_teaches_exist(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "prunnet"
    parser = typer.main.get_command(app)
    while isinstance(parser, click.Group):
        assert words[0] in parser.commands
        parser, words = parser.commands[words[0]], words[1:]
    parser.make_context("prunnet", words)  # raises on an option that is not there
