"""`prunnet data`: which data sets there are, and whether yours is sound."""

from typing import Annotated

import typer

from prunnet.cli.arguments import Root

app = typer.Typer(help="Look at data sets, and check your own.", no_args_is_help=True)


@app.command("list")
def list_datasets() -> None:
    """Show every known data set, the files it needs and where to get them.

    Examples:  prunnet data list
    """
    from rich.console import Console
    from rich.table import Column, Table

    from prunnet.data import DATASETS

    needs_column = Column("needs in its root", overflow="fold")  # an address cut short is of no use
    table = Table("name", needs_column, "split", "metric", title="Data sets", show_lines=True)
    for entry in DATASETS.values():
        needs = entry.files if entry.source == "built in" else f"{entry.files}\n{entry.source}"
        table.add_row(entry.name, needs, entry.split, entry.metric)
    table.add_row("FOLDER", "a folder per class; or train/ and test/, or train/ query/ gallery/", "by class", "mAP")
    table.add_row(
        "FILE.csv, FILE.parquet", "path, label, split, is_query, is_gallery (camera, bbox)", "as given", "mAP"
    )
    Console().print(table)


@app.command("check")
def check_data(
    spec: Annotated[str, typer.Argument(help="A manifest, a folder per class, or the name of a data set.")],
    root: Root = None,
    min_side: Annotated[int, typer.Option(help="Images with a shorter side are errors.", min=1)] = 8,
) -> None:
    """Read every image once and report what would spoil training or evaluation.

    Ends with 0 if all is well or there are warnings only, 1 on errors, 2 if the data cannot be loaded at all.

    Examples:  prunnet data check photos/   ·   prunnet data check veri776 --root VeRi
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from prunnet.data import check, load_data
    from prunnet.errors import PrunNetError

    console = Console()
    try:
        data = load_data(spec, root)
    except PrunNetError as error:
        Console(stderr=True).print(f"[red]error[/] {escape(str(error))}", soft_wrap=True)
        raise typer.Exit(2) from None
    report = check(data, min_side=min_side)
    sizes = Table("set", "images", "classes", title=escape(report.name))
    for part, images in report.sets.items():
        sizes.add_row(part, f"{len(images):,}", f"{images.classes:,}")
    console.print(sizes)
    if report.findings:
        problems = Table("", "problem", "count", "for example", show_lines=True)
        for finding in report.findings:
            colour = "red" if finding.severity == "error" else "yellow"
            examples = escape("\n".join(finding.examples))
            problems.add_row(f"[{colour}]{finding.severity}[/]", finding.problem, f"{finding.count:,}", examples)
        console.print(problems)
    console.print("[green]No errors.[/]" if report.ok else "[red]There are errors.[/]")
    raise typer.Exit(0 if report.ok else 1)
