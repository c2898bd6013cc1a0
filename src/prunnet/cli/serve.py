"""`prunnet serve`: a gallery over HTTP, with a page that asks it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from prunnet.cli.arguments import Gallery, say

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""For torch and faiss, which read it when they are loaded: their threads would go on spinning after each batch, on the
cores that read requests and write answers.
"""


def serve(
    gallery: Gallery,
    family: Annotated[
        str | None,
        typer.Option(
            help="Whose members ask: a run, a family, or a .prun packed with --runtime.",
            show_default="what the gallery was built with",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 is every one of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes a free one.", min=0, max=65535)] = 8000,
    writable: Annotated[bool, typer.Option("--writable", help="Let vectors be added and removed.")] = False,
    token_file: Annotated[
        Path | None, typer.Option(help="Ask for one of the tokens in this file, a line each.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name under which it is asked, as behind a proxy; may be repeated.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may read the answers; may be repeated.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Where the gallery's images are now, if they have moved; ids are paths in it.")
    ] = None,
    queries: Annotated[
        str | None, typer.Option(help="Pictures to try, as a folder.", show_default="those of the run's data")
    ] = None,
    max_k: Annotated[int, typer.Option(help="Answers to a query.", min=1)] = 100,
    max_body: Annotated[str, typer.Option(help="Of a request.")] = "16MB",
    max_seconds: Annotated[float, typer.Option(help="For an answer.", min=0.1)] = 30.0,
    max_requests: Annotated[int, typer.Option(help="At the same time.", min=1)] = 256,
    open_page: Annotated[bool, typer.Option("--open", help="Show the page in a browser.")] = False,
) -> None:
    """Serve a gallery: a page that runs the small network in the browser and asks the gallery, and an API.

    It listens to this machine alone, and nothing can be changed, unless you say so. Ctrl-C ends it: what was accepted
    is answered first.

    Examples:  prunnet serve demo/gallery --open
               prunnet serve gallery/ --family a.prun --host 0.0.0.0 --token-file tokens.txt
    """
    import webbrowser

    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    from prunnet.costs.quantities import parse_quantity
    from prunnet.serve import Limits
    from prunnet.serve.running import serve as run

    def ready(address: str) -> None:
        say(f"the gallery is served at {address}; Ctrl-C ends it", "bold")
        if open_page:
            webbrowser.open(address)

    limits = Limits(body=int(parse_quantity(max_body, "B")), k=max_k, seconds=max_seconds, requests=max_requests)
    run(
        gallery,
        family,
        host=host,
        port=port,
        writable=writable,
        token_file=token_file,
        hosts=allow_host or (),
        origins=allow_origin or (),
        images=images,
        queries=queries,
        limits=limits,
        ready=ready,
    )
