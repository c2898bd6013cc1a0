"""The answers of a gallery as one HTML file: queries with the pictures that were found."""

from html import escape
from importlib.resources import files
from pathlib import Path

from prunnet._files import write_text
from prunnet._pictures import read_picture
from prunnet.errors import UnreadableImageError
from prunnet.report.searches import picture
from prunnet.search import Hit
from prunnet.search.asking import Asked, Query

SHOWN = 200  # queries
ANSWERS = 10
ROW = 5


def write_answers_page(asked: Asked, file: Path) -> Path:
    """Write the page to `file`: nothing is fetched, nothing is executed, all text is escaped."""
    shown = list(zip(asked.queries, asked.answers, strict=True))[:SHOWN]
    style = files("prunnet.report").joinpath("style.css").read_text(encoding="utf-8")
    searches = "".join(_search(asked, query, hits[:ANSWERS]) for query, hits in shown)
    write_text(
        file,
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,"><title>PrunNet · answers</title>\n'
        f"<style>\n{style}</style></head><body><main>\n"
        f"<header><h1>Answers</h1><p>{_summary(asked, len(shown))}</p></header>\n"
        f'<section><div class="searches">{searches}</div></section>\n</main></body></html>\n',
    )
    return file


def _summary(asked: Asked, shown: int) -> str:
    text = f"{len(asked.queries):,} queries"
    if shown < len(asked.queries):
        text += f", the first {shown:,} shown"
    if asked.mean_average_precision is not None:
        text += f"; mAP {100 * asked.mean_average_precision:.2f}. ✓ is the same class, ✗ another."
    return text


def _search(asked: Asked, query: Query, hits: list[Hit]) -> str:
    name = escape(query.label or query.id)
    image = f'<img src="{picture(asked.images.image(query.index))}" alt="query: {name}">'
    rows = "".join(_row(query, hits[start : start + ROW]) for start in range(0, len(hits), ROW))
    asking = f'<div class="asked">{image}{name}</div>'
    return f'<div class="search">{asking}<div>{rows}</div></div>'


def _row(query: Query, hits: list[Hit]) -> str:
    """A few answers, after the similarity of the first."""
    return f'<div class="found"><span>{hits[0].score:.2f}</span>{"".join(_hit(query, hit) for hit in hits)}</div>'


def _hit(query: Query, hit: Hit) -> str:
    known = hit.record
    label = known.metadata.get("label")
    right = query.label is not None and label == query.label
    kind, sign = (" right", "✓") if right else ("", "✗")
    mark = f"<span>{sign}</span>" if query.label is not None and label is not None else ""
    name = escape(f"{known.id} · {hit.score:.3f}")
    return f'<figure class="hit{kind}" title="{name}">{_picture(known.metadata.get("path"), name)}{mark}</figure>'


def _picture(path: object, name: str) -> str:
    try:
        return f'<img src="{picture(read_picture(str(path)))}" alt="{name}">' if path else name
    except UnreadableImageError:
        return name
