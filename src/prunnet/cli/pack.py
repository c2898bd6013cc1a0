"""`prunnet pack` and `prunnet unpack`: a family as one progressive file, and subnetworks from its first bytes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prunnet.cli.arguments import Root, parse_capacities, say

if TYPE_CHECKING:
    from prunnet.storage.prun import Contents


def pack(
    source: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run or family folder; with --inspect, a .prun file.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("family.prun"),
    values: Annotated[Literal["float16", "int8"], typer.Option(help="How values are stored.")] = "float16",
    grid: Annotated[str | None, typer.Option(help="Capacities to pack; default: .05 to .2 by .05, to 1 by .1.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Adapt batch norm on its training images, and correct it for rounded values.")
    ] = None,
    root: Root = None,
    adapt_batches: Annotated[int, typer.Option(help="Batches of 64 images to adapt on.", min=1)] = 100,
    runtime: Annotated[
        bool, typer.Option("--runtime", help="Let prunnet's own runtime and browsers run the file.")
    ] = False,
    inspect: Annotated[bool, typer.Option("--inspect", help="Only show what a .prun file (or address) holds.")] = False,
) -> None:
    """Write a family as one progressive file, of which every capacity on the grid is a prefix.

    Examples:  prunnet pack runs/a -o a.prun --data photos/   ·   prunnet pack --inspect a.prun
    """
    from prunnet.storage.prun import DEFAULT_GRID, read_contents

    if inspect:
        _show(read_contents(source), source)
        return

    import prunnet
    from prunnet.data import training_images

    family = prunnet.load(source)
    capacities = DEFAULT_GRID if grid is None else parse_capacities(grid)
    loader = None if data is None else training_images(prunnet.load_data(data, root), family.preprocessing)
    prunnet.pack(
        family, out, grid=capacities, values=values, loader=loader, adapt_batches=adapt_batches, runtime=runtime
    )
    _show(read_contents(out), str(out))


def unpack(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A .prun file, or its address on the web.")],
    capacity: Annotated[float | None, typer.Option(help="One of the file's grid; default: its largest.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path("subnetwork"),
) -> None:
    """Take a subnetwork out of a progressive file, reading only the bytes it needs.

    Examples:  prunnet unpack a.prun --capacity .1 -o small/   ·   prunnet unpack https://host/a.prun --capacity .2
    """
    import prunnet
    from prunnet.costs.quantities import format_quantity
    from prunnet.network.capacity import format_capacity
    from prunnet.storage.prun import prefix_bytes

    subnetwork = prunnet.unpack(source, capacity)
    folder = subnetwork.save(out)
    read_bytes = format_quantity(prefix_bytes(source, subnetwork.capacity), "B")
    what = f"family {subnetwork.family_id} at {format_capacity(subnetwork.capacity)}"
    say(f"{what}: {read_bytes} read, written to {folder}")


def _show(contents: "Contents", name: str) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from prunnet.costs.quantities import format_quantity
    from prunnet.network.capacity import format_capacity

    how = f"{contents.values}, with a program to run" if contents.runs else contents.values
    table = Table(
        title=escape(f"{name}: family {contents.family_id}, {contents.backbone}, {how}"),
        title_justify="left",
    )
    for heading in ("capacity", "file up to", "band", "connections", "membership bits", "bound"):
        table.add_column(heading, justify="right")
    for band in contents.bands:
        table.add_row(
            format_capacity(band.capacity),
            format_quantity(band.end, "B"),
            format_quantity(band.end - band.start, "B"),
            f"{band.joining:,}",
            f"{band.bits_per_connection:.4f}",
            f"{band.bound_per_connection:.4f}",
            style=None if band.held else "dim",
        )
    Console().print(table)
    held = sum(band.held for band in contents.bands)
    if held < len(contents.bands):
        largest = format_capacity(contents.bands[held - 1].capacity)
        say(f"This file is a prefix: it holds capacities up to {largest}.")
