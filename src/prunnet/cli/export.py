"""`prunnet export`: a subnetwork as a file for another runtime."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prunnet.cli.arguments import Root, say

if TYPE_CHECKING:
    from prunnet.data import RetrievalData
    from prunnet.network import Subnetwork


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A run, family, members or subnetwork, or a .prun.")],
    out: Annotated[Path, typer.Argument(metavar="FILE", help="Ends in .onnx, .pt2 or .xml (OpenVINO).")],
    capacity: Annotated[float | None, typer.Option(help="Which subnetwork; default: the largest.")] = None,
    format: Annotated[str | None, typer.Option(help="onnx, pt2 or openvino; default: by the suffix.")] = None,
    int8: Annotated[bool, typer.Option("--int8", help="Quantise the ONNX file; needs --data.")] = False,
    data: Annotated[
        str | None, typer.Option(help="Images to calibrate int8 on, to measure what it costs, and to adapt batch norm.")
    ] = None,
    root: Root = None,
    calibration_batches: Annotated[int, typer.Option(help="Batches of 64 images to calibrate int8 on.", min=1)] = 4,
) -> None:
    """Write a subnetwork for another runtime, from normalised images to L2-normalised embeddings.

    The file gets its name only after it computed in its own runtime what torch computes, to 1e-4.

    Examples:  prunnet export small/ small.onnx   ·   prunnet export small/ small.onnx --int8 --data photos/
    """
    from itertools import islice

    import prunnet
    from prunnet.costs.quantities import format_quantity
    from prunnet.data import training_images
    from prunnet.deploy.export.int8 import int8_cost
    from prunnet.errors import ExportError
    from prunnet.network.capacity import format_capacity

    if int8 and data is None:
        raise ExportError("int8 is calibrated, and what it costs measured, on images: name some with --data")
    images = None if data is None else prunnet.load_data(data, root)
    subnetwork = _subnetwork(model, capacity, images)
    calibration = None
    if int8 and images is not None:
        batches = training_images(images, subnetwork.preprocessing)
        calibration = (batch.images for batch in islice(batches, calibration_batches))
    exported = prunnet.export(subnetwork, out, format, calibration=calibration)
    what = f"family {exported.family_id} at {format_capacity(exported.capacity)}, {exported.metadata.precision}"
    say(f"{out}: {what}, {format_quantity(exported.bytes, 'B')}")
    if int8 and images is not None:
        cost = int8_cost(exported, subnetwork, images)
        say(
            f"{cost.metric}: {100 * cost.fp32:.2f} in fp32, {100 * cost.int8:.2f} in int8, "
            f"{100 * cost.int8_in_fp32_gallery:.2f} with int8 queries in a gallery indexed in fp32"
        )


def _subnetwork(model: str, capacity: float | None, images: "RetrievalData | None") -> "Subnetwork":
    """What is to be exported, with batch norm adapted on `images` where the family has no statistics."""
    import prunnet
    from prunnet.data import training_images
    from prunnet.network import Subnetwork
    from prunnet.storage.opening import is_packed

    if is_packed(model):
        packed = prunnet.load(model, capacity=capacity)
        assert isinstance(packed, Subnetwork)
        return packed
    family = prunnet.load(model)
    wanted = max(family.available((1.0, *family.capacities))) if capacity is None else capacity
    adapted = images is None or family.subnetwork(wanted).adapted
    loader = None if adapted or images is None else training_images(images, family.preprocessing)
    return prunnet.prune(family, capacity=wanted, loader=loader)
