"""`prunnet prune`: from a device's budget to its subnetwork."""

from pathlib import Path
from typing import Annotated

import typer

from prunnet.cli.arguments import Root, say


def prune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run, family, members or subnetwork folder.")],
    capacity: Annotated[float | None, typer.Option(help="Fraction of connections kept.")] = None,
    max_bytes: Annotated[str | None, typer.Option(help="The largest within, say, 3MB (as packed).")] = None,
    max_macs: Annotated[str | None, typer.Option(help="The largest within, say, 200M.")] = None,
    max_latency: Annotated[str | None, typer.Option(help="The largest within, say, 8ms here, measured.")] = None,
    runtime: Annotated[str, typer.Option(help="For --max-latency: torch, onnxruntime, openvino or prunnet.")] = "torch",
    structured: Annotated[
        bool,
        typer.Option(
            "--structured",
            help="Drop whole filters; --capacity is then the share of parameters.",
        ),
    ] = False,
    data: Annotated[str | None, typer.Option(help="Adapt batch norm on its training images.")] = None,
    root: Root = None,
    adapt_batches: Annotated[int, typer.Option(help="Batches of 64 images to adapt on.", min=1)] = 100,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path("subnetwork"),
) -> None:
    """Take the largest subnetwork within a budget out of a family, with batch-norm statistics of its own.

    Neither torch nor onnxruntime nor openvino was faster for zeros when measured, so there all unstructured subnetworks
    meet a latency budget or none does; prunnet's own runtime skips them (--runtime prunnet), and --structured removes
    whole filters, which is faster everywhere.

    Examples:  prunnet prune family/ --max-bytes 3MB --data photos/   ·   prunnet prune family/ --capacity .2 -o small/
    """
    import prunnet
    from prunnet.costs.quantities import format_quantity
    from prunnet.data import training_images
    from prunnet.network.capacity import format_capacity

    family = prunnet.load(model)
    subnetwork = prunnet.prune(
        family,
        capacity=capacity,
        max_bytes=max_bytes,
        max_macs=max_macs,
        max_latency=max_latency,
        runtime=runtime,
        structured=structured,
        loader=None if data is None else training_images(prunnet.load_data(data, root), family.preprocessing),
        adapt_batches=adapt_batches,
    )
    folder = subnetwork.save(out)
    values = [parameter.count_nonzero() / parameter.numel() for parameter in subnetwork.backbone.parameters()]
    kept = sum(int(parameter.count_nonzero()) for parameter in subnetwork.backbone.parameters())
    zeros = " with the zeros" if min(values) < 0.99 else ""
    size = format_quantity(sum(file.stat().st_size for file in folder.iterdir()), "B")
    what = f"subnetwork of family {subnetwork.family_id} at {format_capacity(subnetwork.capacity)}"
    say(f"{folder}: {what}, {kept:,} backbone parameters kept, {size}{zeros}")
