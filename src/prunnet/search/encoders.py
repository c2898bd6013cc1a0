"""Whatever embeds for a gallery, opened alike: a run, family, subnetwork, `.prun` or exported file."""

import os
from pathlib import Path

from prunnet.deploy.export import load_exported
from prunnet.errors import CapacityError
from prunnet.evaluation import Encoder
from prunnet.network import Subnetwork
from prunnet.network.capacity import format_capacity
from prunnet.storage import load

EXPORTED = (".onnx", ".xml")


def open_encoder(source: str | os.PathLike[str], capacity: float | None = None) -> Encoder:
    """The member at `capacity` (default: the largest that is there) of what is stored at a path or an address."""
    if Path(source).suffix in EXPORTED and Path(source).is_file():
        exported = load_exported(source)
        if capacity not in (None, exported.capacity):
            raise CapacityError(f"{source} holds the {format_capacity(exported.capacity)} network alone")
        return exported
    family = load(source, capacity=capacity)
    if isinstance(family, Subnetwork):
        return family.eval()
    return family.subnetwork(max(family.available((1.0, *family.capacities))))
