"""`prunnet bench`: what subnetworks really take on this machine."""

from typing import Annotated

import typer

from prunnet.cli.arguments import open_model, parse_capacities


def bench(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="A run, family, members or subnetwork, .prun or timm model."),
    ],
    capacities: Annotated[
        str | None, typer.Option(help="Capacities to measure.", show_default="1, .5, .2, .1 and those trained")
    ] = None,
    runtimes: Annotated[
        str | None, typer.Option(help="Any of torch, onnxruntime, openvino, prunnet.", show_default="all")
    ] = None,
    structured: Annotated[bool, typer.Option("--structured", help="Also measure structured subnetworks.")] = False,
    batch_size: Annotated[int, typer.Option(help="Images at once, for throughput.", min=1)] = 8,
    rounds: Annotated[int, typer.Option(help="Rounds to take the median of.", min=1)] = 15,
) -> None:
    """Measure latency and throughput of each capacity in each runtime, and say whether the zeros save time.

    All capacities take turns in every round; times are medians. `uses it` compares the time saved with the
    multiplications saved: yes from half of them on, no below a fifth.

    Examples:  prunnet bench family/ --structured   ·   prunnet bench resnet18 --runtimes onnxruntime
    """
    from rich.console import Console
    from rich.table import Table

    from prunnet.deploy import bench as measure
    from prunnet.network.capacity import format_capacity

    family = open_model(model)
    wanted = None if capacities is None else parse_capacities(capacities)
    names = None if runtimes is None else [name.strip() for name in runtimes.split(",")]
    timings = measure(family, wanted, names, structured=structured, batch_size=batch_size, rounds=rounds)
    title = f"Latency of one image, throughput of {batch_size}, ratios to the largest"
    table = Table(title=title, title_justify="left", box=None)
    for heading in ("runtime", "capacity", "kind", "latency", "images/s", "time ×", "MACs ×", "uses it"):
        table.add_column(
            heading, justify="left" if heading in ("runtime", "kind", "uses it") else "right", no_wrap=True
        )
    for timing in timings:
        dense = timing.capacity == 1.0
        table.add_row(
            timing.runtime,
            format_capacity(timing.capacity),
            "dense" if dense else "structured" if timing.structured else "zeros",
            f"{1e3 * timing.latency:.1f} ms",
            f"{timing.throughput:.1f}",
            f"{timing.ratio:.2f}",
            f"{timing.macs_ratio:.2f}",
            "" if dense else timing.verdict,
        )
    Console().print(table)
