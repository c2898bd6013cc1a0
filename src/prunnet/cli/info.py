"""`prunnet info`: what a network costs at each capacity."""

from typing import Annotated

import typer

from prunnet.cli.parsing import parse_capacities


def info(
    network: Annotated[str, typer.Argument(help="A family folder, or the name of a timm model.")],
    capacities: Annotated[str, typer.Option(help="Capacities to show, with commas between them.")] = "1,.8,.6,.4,.2,.1",
    max_bytes: Annotated[str | None, typer.Option(help="Also find the largest capacity within, say, 3MB.")] = None,
    max_macs: Annotated[str | None, typer.Option(help="Also find the largest capacity within, say, 200M.")] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Show every layer at the first capacity.")] = False,
) -> None:
    """Show parameters, bytes and MACs of a network at each capacity.

    Bytes are those of a packed file: half-precision values and the entropy of which connections are kept. MACs are for
    one image; whether zeros save time depends on the runtime.

    Examples:  prunnet info resnet18   ·   prunnet info family/ --max-bytes 3MB
    """
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    import prunnet
    from prunnet.network.capacity import format_capacity
    from prunnet.network.cost import cost_table
    from prunnet.network.units import format_quantity

    chosen = parse_capacities(capacities)
    is_folder = Path(network).is_dir()
    net = prunnet.load(network) if is_folder else prunnet.convert(prunnet.create_backbone(network))
    budget = max_bytes is not None or max_macs is not None
    fitting = prunnet.capacity_for(net, max_bytes=max_bytes, max_macs=max_macs) if budget else None
    table_capacities = chosen if fitting is None else tuple(sorted({*chosen, fitting}, reverse=True))
    costs = cost_table(net, table_capacities)

    console = Console()
    size = " × ".join(map(str, net.preprocessing.input_size))
    title = f"family {net.family_id}" if is_folder else network
    table = Table(title=f"{title} at {size}: {len(net.scores)} prunable layers", title_justify="left")
    for heading in ("capacity", "backbone parameters", "parameters", "bytes", "MACs"):
        table.add_column(heading, justify="right")
    for row in costs:
        table.add_row(
            format_capacity(row.capacity),
            f"{row.backbone_parameters:,}",
            f"{row.parameters:,}",
            format_quantity(row.bytes, "B"),
            format_quantity(row.macs, ""),
            style="bold" if row.capacity == fitting else None,
        )
    console.print(table)
    if fitting is not None:
        console.print(f"Largest capacity within the budget: {fitting:.6g}")
    if layers:
        table = Table(title=f"Layers at {format_capacity(chosen[0])}", title_justify="left")
        table.add_column("layer")
        for heading in ("connections", "kept", "bytes", "MACs"):
            table.add_column(heading, justify="right")
        first = next(row for row in costs if row.capacity == chosen[0])
        for layer in first.layers:
            table.add_row(
                layer.name,
                f"{layer.connections:,}",
                f"{layer.kept:,}",
                format_quantity(layer.bytes, "B"),
                format_quantity(layer.macs, ""),
            )
        console.print(table)
