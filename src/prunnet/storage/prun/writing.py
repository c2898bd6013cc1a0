"""`prunnet.pack`: a family as one progressive file."""

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunnet._files import write_atomically
from prunnet._progress import track
from prunnet.errors import CapacityError, FamilyError, KindError
from prunnet.network import Connections, Family, PrunableNetwork
from prunnet.network.allocation import Uniform
from prunnet.network.backbones import recipe_of
from prunnet.network.capacity import format_capacity
from prunnet.network.family import ADAPT_BATCHES
from prunnet.storage.documents import described
from prunnet.storage.prun.correction import corrected_statistics, known_statistics
from prunnet.storage.prun.header import (
    DEFAULT_GRID,
    FORMAT,
    VERSION,
    Header,
    check_grid,
    fine_of,
    header_bytes,
    is_mean,
    scales_of,
)
from prunnet.storage.prun.numbers import (
    Floats,
    Values,
    exponent_for,
    filter_scales,
    in_steps,
    rounded,
    stepped_layers,
    to_halves,
    to_steps,
)
from prunnet.storage.prun.sections import Coded, SectionWriter
from prunnet.storage.prun.tensors import Tensors, shapes_of, tensors_of
from prunnet.storage.prun.tracing import trace_program


def pack(
    net: Family,
    path: str | os.PathLike[str],
    *,
    grid: Iterable[float] = DEFAULT_GRID,
    values: Values = "float16",
    loader: Iterable[Any] | None = None,
    adapt_batches: int | None = ADAPT_BATCHES,
    runtime: bool = False,
) -> Path:
    """Write the family as a progressive file: every capacity of `grid` is a prefix of it.

    values: "float16", or "int8" with a scale per output filter.
    loader: batches of preprocessed images, of which `adapt_batches` are kept in memory. On them batch norm is adapted
        where it never was, and corrected everywhere for the rounding of values, which matters most in int8. `net`
        stays as it is. Without a loader, capacities that were never adapted are refused.
    runtime: whether the file also says how an image is embedded, so that `prunnet.Runtime` and browsers run it. A
        backbone with an operation that they lack is refused.
    """
    capacities = check_grid(grid)
    if not isinstance(net, PrunableNetwork):
        raise KindError(
            f"a .prun holds nested connections of one network; this is {net.kind}: export one (prunnet export)"
        )
    if not isinstance(net.selection, Connections):
        raise KindError(
            f"a .prun holds nested connections, and this network selects {net.selection.name}: its subnetworks are "
            "saved one by one (prunnet prune)"
        )
    if values not in ("float16", "int8"):
        raise FamilyError(f"values must be 'float16' or 'int8'; found {values!r}")
    missing = [format_capacity(capacity) for capacity in capacities if known_statistics(net, capacity) is None]
    if missing and loader is None:
        raise CapacityError(
            f"batch norm was never adapted at {', '.join(missing)}; pass loader= to adapt it, or grid= without these"
        )

    tensors = tensors_of(net, [f"backbone.{name}" for name in net.scores])
    program = trace_program(net.backbone, net.head, net.preprocessing.input_size, tensors.names) if runtime else None
    stepped = stepped_layers(shapes_of(tensors.layers), values)
    first, coded = _first_section(_arrays(tensors.rest), _arrays(tensors.layers), stepped)
    if loader is None:
        statistics = [known_statistics(net, capacity) or {} for capacity in capacities]
    else:
        batches = list(islice(loader, adapt_batches))
        statistics = corrected_statistics(net, _rounded(tensors, stepped), capacities, batches)
    sections = [first.finish()]
    bands = zip(statistics, _joining(net, capacities), strict=True)
    for known, members in track(bands, "packing bands", len(capacities)):
        band = SectionWriter()
        running = _arrays({name: known[name] for name in tensors.statistics})
        fine = {fine_of(name): mean - rounded(mean, name) for name, mean in running.items() if is_mean(name)}
        band.tensors({**running, **fine})
        for layer, (member, positions) in zip(coded, members, strict=True):
            band.layer(member, coded[layer][positions])
        sections.append(band.finish())

    header = described(
        Header,
        format=FORMAT,
        version=VERSION,
        family_id=net.family_id,
        backbone=recipe_of(net.backbone),
        backbone_class=type(net.backbone).__name__,
        embedding_dim=net.head.embedding_dim,
        preprocessing=vars(net.preprocessing),
        values=values,
        stepped=stepped,
        grid=capacities,
        kept=_kept(net, capacities),
        layers=shapes_of(tensors.layers),
        statistics=shapes_of(tensors.statistics),
        rest=shapes_of(tensors.rest),
        sections=tuple(
            {"bytes": len(payload), "membership": membership, "sha256": hashlib.sha256(payload).hexdigest()}
            for payload, membership in sections
        ),
        program=program,
    )
    target = Path(path)
    try:
        with write_atomically(target) as temporary, temporary.open("wb") as file:
            file.writelines([header_bytes(header), *(payload for payload, _ in sections)])
    except OSError as error:
        raise FamilyError(f"{target} could not be written ({error.strerror})") from error
    return target


def _first_section(
    rest: Mapping[str, Floats], layers: Mapping[str, Floats], stepped: Collection[str]
) -> tuple[SectionWriter, dict[str, Coded]]:
    """The section of all that is not pruned, and every value of every layer as the bands will hold it."""
    scales = {name: filter_scales(layers[name]) for name in stepped}
    exponents = {name: exponent_for(w, name) for name, w in layers.items() if name not in scales}
    first = SectionWriter()
    first.tensors({**rest, **{scales_of(name): scale for name, scale in scales.items()}})
    first.exponents(exponents.values())
    return first, {
        name: to_steps(w, rounded(scales[name], name)) if name in scales else to_halves(w.ravel(), exponents[name])
        for name, w in layers.items()
    }


def _rounded(tensors: Tensors, stepped: Collection[str]) -> dict[str, Tensor]:
    """Every tensor but the statistics as it will come back."""
    arrays = _arrays({**tensors.rest, **tensors.layers})
    return {
        name: torch.as_tensor(in_steps(array, name) if name in stepped else rounded(array, name))
        for name, array in arrays.items()
    }


def _joining(
    net: PrunableNetwork, capacities: tuple[float, ...]
) -> Iterator[list[tuple[NDArray[np.bool_], NDArray[np.int64]]]]:
    """Per band and layer: which of the connections not yet kept join, and the positions of those that do."""
    remaining = [np.arange(connections) for connections in net.connections.values()]
    for masks in net.selection.masks(net, capacities):
        members = [mask.cpu().view(-1).numpy()[left] for mask, left in zip(masks.values(), remaining, strict=True)]
        yield [(member, left[member]) for member, left in zip(members, remaining, strict=True)]
        remaining = [left[~member] for member, left in zip(members, remaining, strict=True)]


def _kept(net: PrunableNetwork, capacities: tuple[float, ...]) -> list[list[int]] | None:
    """How many connections of each layer the prefixes keep, where it is not the same share of each."""
    allocation = net.selection.allocation
    if isinstance(allocation, Uniform):
        return None
    return [list(allocation.kept(capacity, net.connections).values()) for capacity in capacities]


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, Floats]:
    return {name: tensor.detach().float().cpu().numpy() for name, tensor in tensors.items()}
