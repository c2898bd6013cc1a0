"""`prunnet export`: a subnetwork as a file for another runtime."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from prunnet.network import Subnetwork


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A subnetwork, family or run folder.")],
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Ends in .onnx, .pt2 or .xml (OpenVINO).")],
    capacity: Annotated[float | None, typer.Option(help="Of a family: which subnetwork; default: dense.")] = None,
    format: Annotated[str | None, typer.Option(help="onnx, pt2 or openvino; default: by the suffix.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Quantise the ONNX file; needs --data.")] = False,
    data: Annotated[
        str | None, typer.Option(help="Images to calibrate int8 on, to measure what it costs, and to adapt batch norm.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Folder of the images, or of the named data set.")] = None,
    max_batches: Annotated[int, typer.Option(help="Batches of 64 images to calibrate on.", min=1)] = 4,
) -> None:
    """Write a subnetwork for another runtime, from normalised images to L2-normalised embeddings.

    The file gets its name only after it computed in its own runtime what torch computes, to 1e-4.

    Examples:  prunnet export small/ small.onnx   ·   prunnet export small/ small.onnx --int8 --data photos/
    """
    from itertools import islice

    from rich.console import Console

    from prunnet.data import load as load_data
    from prunnet.deploy.errors import ExportError
    from prunnet.deploy.export import export as write
    from prunnet.deploy.int8_cost import int8_cost
    from prunnet.deploy.training_images import training_images
    from prunnet.network.capacity import format_capacity
    from prunnet.network.units import format_quantity

    if int8 and data is None:
        raise ExportError("int8 is calibrated, and what it costs measured, on images: name some with --data")
    console = Console()
    subnetwork = _subnetwork(model, capacity, data, root)
    calibration = None
    if int8 and data is not None:
        batches = training_images(data, root, subnetwork.preprocessing)
        calibration = (batch.images for batch in islice(batches, max_batches))
    exported = write(subnetwork, out, format, calibration=calibration)
    what = f"family {exported.family_id} at {format_capacity(exported.capacity)}, {exported.metadata.precision}"
    console.print(f"{out}: {what}, {format_quantity(exported.bytes, 'B')}", highlight=False, soft_wrap=True)
    if int8 and data is not None:
        cost = int8_cost(exported, subnetwork, load_data(data, root))
        console.print(
            f"{cost.metric}: {100 * cost.fp32:.2f} in fp32, {100 * cost.int8:.2f} in int8, "
            f"{100 * cost.int8_in_fp32_gallery:.2f} with int8 queries in a gallery indexed in fp32",
            highlight=False,
            soft_wrap=True,
        )


def _subnetwork(model: Path, capacity: float | None, data: str | None, root: Path | None) -> "Subnetwork":
    import prunnet
    from prunnet.deploy.budget import prune
    from prunnet.deploy.training_images import training_images
    from prunnet.errors import CapacityError
    from prunnet.network.subnetwork_folder import FORMAT, load_subnetwork

    config = model / "config.json"
    if config.is_file() and f'"{FORMAT}"' in config.read_text():
        if capacity is not None:
            raise CapacityError(f"{model} is one subnetwork; --capacity is for a family")
        return load_subnetwork(model)
    net = prunnet.load(model / "model" if (model / "model").is_dir() else model)
    chosen = 1.0 if capacity is None else capacity
    if data is None or chosen == 1.0 or chosen in net.statistics:
        return prune(net, capacity=chosen)
    return prune(net, capacity=chosen, loader=training_images(data, root, net.preprocessing), max_batches=30)
