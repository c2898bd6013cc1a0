"""`prunnet evaluate`: the compatibility matrix of a trained family, and a gate for continuous integration."""

from pathlib import Path
from typing import Annotated

import typer

from prunnet.cli.arguments import BatchSize, Root, Workers, parse_capacities, say


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run, family, members or subnetwork, or a .prun.")],
    data: Annotated[
        str | None, typer.Option(help="A manifest, a folder per class, or a data set's name; default: the run's own.")
    ] = None,
    root: Root = None,
    capacities: Annotated[
        str | None,
        typer.Option(help="Fractions of connections kept.", show_default="1, .8, .6, .4, .2, .1 and those trained"),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="mAP, mAP@k, Recall@k, …; by default the data set's own.")] = None,
    old: Annotated[str | None, typer.Option(help="A second family, to check an upgrade from it.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write.", show_default="a new folder in evaluations/ of the model")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if a cross-test is not compatible.")] = False,
    tolerance: Annotated[float, typer.Option(help="Points of the metric a cross-test may fall short by.", min=0)] = 0.0,
    bootstrap: Annotated[int, typer.Option(help="Resamples of the queries for confidence intervals.", min=0)] = 0,
    batch_size: BatchSize = 64,
    workers: Workers = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …")] = None,
    memory: Annotated[str, typer.Option(help="Bound of the memory used for scoring.")] = "1GB",
) -> None:
    """Score every pair of subnetworks, one embedding queries and one the gallery.

    Writes matrix.csv, .json, .md, .tex, .png and curve.png to a folder of its own: what a run ended with stays what it
    is. Embeddings are kept in embeddings/ of the model and used again.

    Examples:  prunnet evaluate runs/a --capacities 1,.4,.13   ·   prunnet evaluate family.prun --data photos/ --out e/
    """
    from rich.console import Console

    import prunnet
    from prunnet.errors import PrunNetError
    from prunnet.runs import Run
    from prunnet.runs.run import new_folder

    run = Run(model)
    if data is None and not run.exists:
        raise PrunNetError(f"{model} is no run folder, so its data is not known; name it with --data")
    if out is None and not run.folder.is_dir():
        raise PrunNetError(f"{model} is no folder; say where to write with --out")
    wanted = None if capacities is None else parse_capacities(capacities)
    family = prunnet.load(model)
    matrix = prunnet.evaluate(
        family,
        run.load_data() if data is None else prunnet.load_data(data, root),
        wanted,
        metric,
        old=None if old is None else prunnet.load(old),
        store=run.embeddings if out is None else out / "embeddings",
        batch_size=batch_size,
        workers=workers,
        device=device,
        memory=memory,
    )
    if bootstrap:
        matrix = matrix.bootstrap(bootstrap)
    folder = out or new_folder(run.evaluations, f"{matrix.data}-{matrix.metric}")
    matrix.write(folder)
    Console().print(matrix)
    verdict = matrix.check(tolerance / 100)
    say(str(verdict), "green" if verdict else "red")
    say(f"written to {folder}")
    if check and not verdict:
        raise typer.Exit(1)
