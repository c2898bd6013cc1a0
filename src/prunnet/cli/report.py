"""`prunnet report`."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; default: RUN/report.html.")] = None,
    capacity: Annotated[
        float | None,
        typer.Option(help="The small network whose searches are shown.", show_default="0.13, or what is nearest"),
    ] = None,
) -> None:
    """Write one self-contained HTML file about a run: matrix, curves, costs, training and real searches.

    The data is loaded as the run's config.yaml says. The file needs no network and no other file.

    Examples:  prunnet report runs/a   ·   prunnet report runs/a --capacity .2 --out a.html
    """
    from prunnet.report import write_report

    print(write_report(run, out, capacity=capacity))
