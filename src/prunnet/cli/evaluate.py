"""`prunnet evaluate`: the compatibility matrix of a trained family, and a gate for continuous integration."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunnet.cli.parsing import parse_capacities

if TYPE_CHECKING:
    from prunnet.data import RetrievalData


def evaluate(
    family: Annotated[Path, typer.Argument(metavar="RUN_OR_FAMILY", help="A run folder, or a family folder.")],
    data: Annotated[
        str | None, typer.Option(help="A manifest, a folder per class, or a data set's name; default: the run's own.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the images, or of the named data set.")] = None,
    capacities: Annotated[str, typer.Option(help="Fractions of connections kept.")] = "1,.8,.6,.4,.2,.1",
    metric: Annotated[str | None, typer.Option(help="mAP, mAP@k, Recall@k, …; by default the data set's own.")] = None,
    old: Annotated[Path | None, typer.Option(help="A second family, to check an upgrade from it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write; by default evaluation/ beside the model.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if a cross-test is not compatible.")] = False,
    tolerance: Annotated[float, typer.Option(help="Points of the metric a cross-test may fall short by.", min=0)] = 0.0,
    bootstrap: Annotated[int, typer.Option(help="Resamples of the queries for confidence intervals.", min=0)] = 0,
    batch_size: Annotated[int, typer.Option(help="Images embedded at once.", min=1)] = 64,
    workers: Annotated[int, typer.Option(help="Processes that read images.", min=0)] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …")] = None,
    memory: Annotated[str, typer.Option(help="Bound of the memory used for scoring.")] = "1GB",
) -> None:
    """Score every pair of subnetworks, one embedding queries and one the gallery.

    Writes matrix.csv, .json, .md, .tex, .png and curve.png. Embeddings are kept in OUT/embeddings and used again.
    """
    from rich.console import Console

    import prunnet
    from prunnet.evaluation import evaluate as evaluate_family

    chosen = parse_capacities(capacities)
    folder = _family_folder(family)
    out = out or (family / "evaluation")
    matrix = evaluate_family(
        prunnet.load(folder),
        _data(family, data, root),
        chosen,
        metric,
        old=None if old is None else prunnet.load(_family_folder(old)),
        store=out / "embeddings",
        batch_size=batch_size,
        workers=workers,
        device=device,
        memory=memory,
    )
    if bootstrap:
        matrix = matrix.bootstrap(bootstrap)
    matrix.to_csv(out / "matrix.csv")
    matrix.to_json(out / "matrix.json")
    matrix.to_markdown(out / "matrix.md")
    matrix.to_latex(out / "matrix.tex")
    matrix.heatmap(out / "matrix.png")
    matrix.curve(out / "curve.png")
    console = Console()
    console.print(matrix)
    verdict = matrix.check(tolerance / 100)
    console.print(str(verdict), style="green" if verdict else "red", highlight=False, soft_wrap=True)
    console.print(f"written to {out}", highlight=False, soft_wrap=True)
    if check and not verdict:
        raise typer.Exit(1)


def _data(family: Path, data: str | None, root: Path | None) -> "RetrievalData":
    from prunnet.data import load
    from prunnet.errors import PrunNetError
    from prunnet.training.config import read_yaml, resolve
    from prunnet.training.run import load_data

    if data is not None:
        return load(data, root)
    if not (family / "config.yaml").is_file():
        raise PrunNetError(f"{family} is no run folder, so its data is not known; name it with --data")
    return load_data(resolve(read_yaml(family / "config.yaml")))


def _family_folder(path: Path) -> Path:
    return path / "model" if (path / "model").is_dir() else path
