"""`prunnet demo`."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    quick: Annotated[
        bool, typer.Option("--quick", help="Less data and training: under a minute, worse figures.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder to write.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Of the data and of training.", min=0)] = 0,
) -> None:
    """Show the whole job on built-in data: train once, prune to any size, search one gallery, report.

    Takes up to five minutes on two cores. Called again it goes on where it stopped, and repeats nothing that is done.

    Examples:  prunnet demo   ·   prunnet demo --quick --out trial
    """
    from rich.console import Console

    from prunnet.demo import demo_settings, run_demo

    console = Console()
    report = run_demo(out, demo_settings(quick=quick, seed=seed), console)
    console.print(f"\nOpen {report} in a browser.", style="bold", markup=False, highlight=False, soft_wrap=True)
