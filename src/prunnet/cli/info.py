"""`prunnet info`: what a network costs at each capacity."""

from typing import Annotated

import typer

from prunnet.cli.arguments import is_stored, open_model, parse_capacities


def info(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run, family, members or subnetwork, a .prun, or a timm model.")
    ],
    capacities: Annotated[
        str | None, typer.Option(help="Capacities to show.", show_default="1, .8, .6, .4, .2, .1 and those trained")
    ] = None,
    max_bytes: Annotated[str | None, typer.Option(help="Also find the largest capacity within, say, 3MB.")] = None,
    max_macs: Annotated[str | None, typer.Option(help="Also find the largest capacity within, say, 200M.")] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Show every layer at the first capacity.")] = False,
) -> None:
    """Show parameters, bytes and MACs of a network at each capacity.

    Bytes are those of a packed file: half-precision values and the entropy of which connections are kept. MACs are for
    one image; whether zeros save time depends on the runtime.

    Examples:  prunnet info resnet18   ·   prunnet info family/ --max-bytes 3MB
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    import prunnet
    from prunnet.costs.quantities import format_quantity
    from prunnet.network.capacity import format_capacity

    wanted = None if capacities is None else parse_capacities(capacities)
    about = prunnet.info(open_model(model), wanted, max_bytes=max_bytes, max_macs=max_macs)
    console = Console()
    size = " × ".join(map(str, about.input_size))
    stored = f", {about.kind} of family {about.family_id}," if is_stored(model) else ""
    title = f"{model}{stored} at {size}: {len(about.costs[0].layers)} prunable layers"
    table = Table(title=escape(title), title_justify="left")
    for heading in ("capacity", "backbone parameters", "parameters", "bytes", "MACs"):
        table.add_column(heading, justify="right")
    for row in about.costs:
        table.add_row(
            format_capacity(row.capacity),
            f"{row.backbone_parameters:,}",
            f"{row.parameters:,}",
            format_quantity(row.bytes, "B"),
            format_quantity(row.macs, ""),
            style="bold" if row.capacity == about.fitting else None,
        )
    console.print(table)
    if about.fitting is not None:
        console.print(f"Largest capacity within the budget: {about.fitting:.6g}")
    if layers:
        first = about.costs[0]
        table = Table(title=f"Layers at {format_capacity(first.capacity)}", title_justify="left")
        table.add_column("layer")
        for heading in ("connections", "kept", "bytes", "MACs"):
            table.add_column(heading, justify="right")
        for layer in first.layers:
            table.add_row(
                layer.name,
                f"{layer.connections:,}",
                f"{layer.kept:,}",
                format_quantity(layer.bytes, "B"),
                format_quantity(layer.macs, ""),
            )
        console.print(table)
