"""The report as one HTML file: nothing is fetched, nothing is executed, all text is escaped."""

import os
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from prunnet._files import write_text
from prunnet.data import RetrievalData
from prunnet.network.capacity import format_capacity
from prunnet.report.curves import capacity_charts, capacity_text, training_charts
from prunnet.report.idea import idea
from prunnet.report.searches import Answer, ExampleSearch
from prunnet.report.summary import RunSummary, gather
from prunnet.report.tables import COSTS_TEXT, MadeFile, costs_table, headline, made_table, matrix_table, matrix_text
from prunnet.runs import Run

IDEA_TEXT = "Train once; every device takes the share of the network that it can carry."
MADE_TEXT = "Made from the same family, without training."
COMMANDS_TEXT = "A folder per class is all it takes (<code>photos/chair/1.jpg</code>); other layouts by a manifest."
COMMANDS = (
    ("check the images", "prunnet data check photos/"),
    ("train once", "prunnet train --data photos/ --out runs/mine"),
    ("this report", "prunnet report runs/mine"),
    ("a subnetwork for a budget", "prunnet prune runs/mine --max-bytes 3MB --data photos/ --out phone/"),
    ("for ONNX Runtime", "prunnet export phone/ phone.onnx"),
    ("all sizes in one file", "prunnet pack runs/mine/model --data photos/ --out family.prun"),
)


def page(summary: RunSummary, made: Sequence[MadeFile] = ()) -> str:
    """The whole document."""
    sections = [
        _section("The idea", IDEA_TEXT, idea()),
        _section("Who can search whose gallery", matrix_text(summary), matrix_table(summary)),
        _section("From large to small", capacity_text(summary), capacity_charts(summary)),
        _section("What each one costs", COSTS_TEXT, costs_table(summary)),
        _section("Real searches", _searches_text(summary), _searches(summary)),
        _section("How it trained", _training_text(summary), training_charts(summary.records)),
    ]
    if made:
        sections.append(_section("Ready for a device", MADE_TEXT, made_table(made)))
    sections.append(_section("On your own images", COMMANDS_TEXT, _commands()))
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>PrunNet · {escape(summary.run.folder.name)}</title>\n'
        f"<style>\n{style}</style>"
        f"</head><body><main>\n<header><h1>One network, every device</h1><p>{_subtitle(summary)}</p></header>\n"
        f"{headline(summary)}\n{''.join(sections)}\n<footer>{_footer(summary)}</footer>\n</main></body></html>\n"
    )


def _section(title: str, text: str, content: str) -> str:
    return f"<section><h2>{title}</h2><p>{text}</p>{content}</section>\n"


def _subtitle(summary: RunSummary) -> str:
    train = summary.data.train
    learned = "" if train is None else f"trained on {len(train):,} images of {train.classes:,} classes, "
    return escape(
        f"{summary.config.backbone} on {summary.data.name}: {learned}tested with {len(summary.data.query):,} queries "
        f"in a gallery of {len(summary.data.gallery):,} images"
        + (", all of classes it never saw." if _unseen(summary) else ".")
    )


def _unseen(summary: RunSummary) -> bool:
    train = summary.data.train
    return train is not None and not set(train.label_names) & set(summary.data.query.label_names)


def _searches_text(summary: RunSummary) -> str:
    which = f"Queries evenly spaced over the {len(summary.data.query):,}, not chosen."
    if all(len(search.answers) < 2 for search in summary.searches):
        return (
            f"{which} The first five answers of the dense network, in its own gallery. ✓ is the same class, ✗ another."
        )
    return (
        f"{which} Above the first five answers of the "
        f"dense network, below those of the {format_capacity(summary.small)} one, both in the gallery that the dense "
        "network indexed. ✓ is the same class, ✗ another."
    )


def _searches(summary: RunSummary) -> str:
    return f'<div class="searches">{"".join(_search(search) for search in summary.searches)}</div>'


def _search(search: ExampleSearch) -> str:
    rows = (
        f'<div class="found"><span>{"dense" if capacity == 1.0 else format_capacity(capacity)}</span>'
        f"{''.join(map(_hit, answers))}</div>"
        for capacity, answers in search.answers.items()
    )
    name = escape(search.name)
    asked = f'<div class="asked"><img src="{search.picture}" alt="query: {name}">{name}</div>'
    return f'<div class="search">{asked}<div>{"".join(rows)}</div></div>'


def _hit(answer: Answer) -> str:
    name, kind, sign = escape(answer.name), " right" if answer.right else "", "✓" if answer.right else "✗"
    word = "right" if answer.right else "wrong"
    return (
        f'<figure class="hit{kind}" title="{name}"><img src="{answer.picture}" alt="{word}: {name}">'
        f"<span>{sign}</span></figure>"
    )


def _training_text(summary: RunSummary) -> str:
    passes = len(summary.records[0]["loss"]) if summary.records else 0
    text = f"Every step sends the same batch through {passes} networks: the dense one and its subnetworks."
    if summary.config.integrator == "conflict-aware" and passes > 1:
        text += " Where their gradients point apart, each is projected off the others before they are added."
    return text


def _commands() -> str:
    text = "\n".join(f'<span class="note"># {note}</span>\n{escape(command)}' for note, command in COMMANDS)
    return f"<pre>{text}</pre>"


def _footer(summary: RunSummary) -> str:
    packages = summary.environment.get("packages", {})
    versions = ", ".join(f"{name} {packages[name]}" for name in ("torch", "timm") if name in packages)
    parts = (
        f"PrunNet {summary.environment.get('prunnet', '')}".strip(),
        f"family {summary.family_id}",
        f"seed {summary.config.seed}",
        versions,
        f"run folder {summary.run.folder}",
    )
    return escape(" · ".join(part for part in parts if part))


def write_report(
    run: Run | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    capacity: float | None = None,
    data: RetrievalData | None = None,
    made: Sequence[MadeFile] = (),
) -> Path:
    """Write the report of a finished run and return its path (default: report.html in its folder).

    capacity: the small network whose searches are shown beside the dense one's (default: 13 %, or what is nearest).
    data: the run's data, if it is loaded already.
    made: files to list that were made from the family.
    """
    run = run if isinstance(run, Run) else Run(run)
    target = run.report if out is None else Path(out)
    write_text(target, page(gather(run, capacity, data), made))
    return target
