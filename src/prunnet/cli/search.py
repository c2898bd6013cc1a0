"""`prunnet search`: ask a gallery with any member of its family."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunnet.cli.arguments import BatchSize, Gallery, Root, Workers, say

if TYPE_CHECKING:
    from prunnet.search.asking import Asked


def search(
    gallery: Gallery,
    queries: Annotated[
        str, typer.Argument(metavar="QUERY", help="A picture, a folder of them, a manifest or a data set's name.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Who asks: a run, family or subnetwork, a .prun (or its address), or an exported .onnx.",
            show_default="what the gallery was built with",
        ),
    ] = None,
    capacity: Annotated[float | None, typer.Option(help="Which member; default: the largest there is.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="Answers to each query.", min=1)] = 10,
    where: Annotated[
        list[str] | None, typer.Option(help="Only images with this in their metadata, as key=value; may be repeated.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the answers as .csv.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Write a page with pictures, and show it.")] = False,
    root: Root = None,
    batch_size: BatchSize = 64,
    workers: Workers = 0,
) -> None:
    """Find the images of a gallery that are most similar to each query, asked by any member of the gallery's family.

    Where the classes of queries and images are known (a folder per class), the mAP of the answers is shown as well.

    Examples:  prunnet search gallery/ query.jpg --model phone.prun -k 5
               prunnet search gallery/ queries/ --model phone.prun --out answers.csv --open
    """
    import webbrowser

    from prunnet.report.answers import write_answers_page
    from prunnet.search import VectorIndex, images_in, open_encoder
    from prunnet.search.asking import ask

    index = VectorIndex.open(gallery)
    images = images_in(queries, root, "query")
    encoder = open_encoder(model or index.made_with, capacity)
    asked = ask(index, encoder, images, k, _conditions(where), batch_size=batch_size, workers=workers)
    for message in asked.unreadable:
        say(message, "yellow")
    if out is not None:
        asked.to_csv(out)
        say(f"{len(asked.queries):,} queries, {sum(map(len, asked.answers)):,} answers: {out}")
    elif not open_page or len(asked.queries) == 1:
        _show(asked)
    if asked.mean_average_precision is not None:
        say(f"mAP {100 * asked.mean_average_precision:.2f}", "bold")
    if open_page:
        page = write_answers_page(asked, Path("answers.html") if out is None else out.with_suffix(".html"))
        say(f"written to {page}")
        webbrowser.open(page.resolve().as_uri())


def _conditions(where: list[str] | None) -> dict[str, str]:
    from prunnet.errors import SearchError

    conditions = {}
    for text in where or ():
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise SearchError(f"--where takes key=value, such as label=chair; found {text!r}")
        conditions[key] = value
    return conditions


SHOWN = 20


def _show(asked: "Asked") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    several = len({hit.family_id for hits in asked.answers for hit in hits}) > 1
    for query, hits in zip(asked.queries[:SHOWN], asked.answers[:SHOWN], strict=True):
        table = Table(title=escape(query.id), title_justify="left")
        for heading in ("", "similarity", "id", "class", *(["family"] if several else [])):
            table.add_column(heading, justify="right" if heading in ("", "similarity") else "left", overflow="fold")
        for place, hit in enumerate(hits, 1):
            more = [hit.family_id] if several else []
            table.add_row(
                str(place), f"{hit.score:.4f}", escape(hit.id), escape(str(hit.metadata.get("label", ""))), *more
            )
        Console().print(table)
    if len(asked.queries) > SHOWN:
        say(f"and {len(asked.queries) - SHOWN:,} more queries; --out answers.csv has them all")
