"""`prunnet.export`: a file for another runtime, which gets its name only after it computed what torch computes."""

from collections.abc import Iterable
from contextlib import ExitStack
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from prunnet._files import write_atomically, write_text
from prunnet.deploy.export.exported import (
    FORMATS,
    ExportedNetwork,
    Metadata,
    digests,
    digests_file,
    format_of,
    open_files,
)
from prunnet.deploy.export.int8 import check_quantised, quantise
from prunnet.deploy.export.tracing import trace
from prunnet.errors import ExportError
from prunnet.network import Subnetwork
from prunnet.network.functional import evaluating

TOLERANCE = 1e-4  # largest difference of any component of an L2-normalised embedding
CHECKED_BATCHES = (1, 2, 3)


def export(
    subnetwork: Subnetwork,
    path: str | PathLike[str],
    format: str | None = None,
    *,
    calibration: Iterable[Tensor] | None = None,
) -> ExportedNetwork:
    """Write `subnetwork`, from preprocessed images to L2-normalised embeddings with any batch size, to `path`.

    format: "onnx" (.onnx), "pt2" (torch.export, .pt2) or "openvino" (.xml with .bin); by default what the suffix says.
    calibration: batches of preprocessed images; with them the ONNX file is quantised to int8.
    Raises and leaves nothing if the file does not reproduce torch to 1e-4 in its own runtime.
    """
    target = Path(path)
    name = format_of(target, format)
    if calibration is not None and name != "onnx":
        raise ExportError(f"int8 is available for onnx, not for {name}")
    module = FORMATS[name]
    with ExitStack() as stack:
        # left in reverse: the file that is opened first gets its name last
        files = {s: stack.enter_context(write_atomically(target.with_suffix(s))) for s in module.SUFFIXES}
        module.write(trace(subnetwork), Metadata.of(subnetwork, "fp32").as_text(), files)
        verify(open_files(module, files, target), subnetwork)
        if calibration is not None:
            batches = [batch.float().cpu() for batch in calibration]
            quantise(files[".onnx"], batches, Metadata.of(subnetwork, "int8").as_text())
            check_quantised(open_files(module, files, target), subnetwork, batches)
        write_text(digests_file(target), digests(target, files))
    return open_files(module, {suffix: target.with_suffix(suffix) for suffix in module.SUFFIXES}, target)


@torch.no_grad()
def verify(exported: ExportedNetwork, subnetwork: Subnetwork) -> None:
    """Compare with torch on random images, in several batch sizes."""
    generator = torch.Generator().manual_seed(0)
    reference = next(subnetwork.parameters())
    with evaluating(subnetwork):
        for size in CHECKED_BATCHES:
            images = torch.randn(size, *subnetwork.preprocessing.input_size, generator=generator)
            expected = subnetwork(images.to(reference)).float().cpu()
            difference = float((exported(images) - expected).abs().max())
            if not difference <= TOLERANCE:
                raise ExportError(
                    f"the exported model differs from torch by {difference:.1e} with a batch of {size}, more than "
                    f"{TOLERANCE:g}; nothing was written"
                )
