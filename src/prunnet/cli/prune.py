"""`prunnet prune`: from a device's budget to its subnetwork."""

from pathlib import Path
from typing import Annotated

import typer


def prune(
    family: Annotated[Path, typer.Argument(metavar="FAMILY", help="A family folder, or a run folder.")],
    capacity: Annotated[float | None, typer.Option(help="Fraction of connections kept.")] = None,
    max_bytes: Annotated[str | None, typer.Option(help="The largest within, say, 3MB (as packed).")] = None,
    max_macs: Annotated[str | None, typer.Option(help="The largest within, say, 200M.")] = None,
    max_latency: Annotated[str | None, typer.Option(help="The largest within, say, 8ms here, measured.")] = None,
    runtime: Annotated[str, typer.Option(help="For --max-latency: torch, onnxruntime or openvino.")] = "torch",
    structured: Annotated[
        bool,
        typer.Option(
            "--structured",
            help="Drop whole filters; --capacity is then the share of parameters.",
        ),
    ] = False,
    data: Annotated[str | None, typer.Option(help="Adapt batch norm on its training images.")] = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the images, or of the named data set.")] = None,
    max_batches: Annotated[int, typer.Option(help="Batches of 64 images to adapt on.", min=1)] = 30,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write.")] = Path("subnetwork"),
) -> None:
    """Take the largest subnetwork within a budget out of a family, with batch-norm statistics of its own.

    Neither torch nor onnxruntime nor openvino was faster for zeros when measured, so all unstructured subnetworks meet
    a latency budget or none does; --structured removes whole filters and was faster in all three.

    Examples:  prunnet prune family/ --max-bytes 3MB --data photos/   ·   prunnet prune family/ --capacity .2 -o small/
    """
    from rich.console import Console

    import prunnet
    from prunnet.deploy.budget import prune as prune_family
    from prunnet.deploy.training_images import training_images
    from prunnet.network.capacity import format_capacity
    from prunnet.network.subnetwork_folder import save_subnetwork
    from prunnet.network.units import format_quantity

    net = prunnet.load(family / "model" if (family / "model").is_dir() else family)
    subnetwork = prune_family(
        net,
        capacity=capacity,
        max_bytes=max_bytes,
        max_macs=max_macs,
        max_latency=max_latency,
        runtime=runtime,
        structured=structured,
        loader=None if data is None else training_images(data, root, net.preprocessing),
        max_batches=max_batches,
    )
    structured = structured or net.structured
    folder = save_subnetwork(subnetwork, out)
    kept = sum(int(parameter.count_nonzero()) for parameter in subnetwork.backbone.parameters())
    size = format_quantity(sum(file.stat().st_size for file in folder.iterdir()), "B")
    what = f"{'structured ' if structured else ''}subnetwork of family {subnetwork.family_id}"
    Console().print(
        f"{folder}: {what} at {format_capacity(subnetwork.capacity)}, {kept:,} backbone parameters kept, {size}"
        + ("" if structured else " with the zeros"),
        highlight=False,
        soft_wrap=True,
    )
