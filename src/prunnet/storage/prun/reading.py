"""`prunnet.unpack`: a subnetwork from the first bytes of a progressive file."""

import hashlib

import numpy as np
from torch import nn

from prunnet.errors import FamilyError, ModuleError
from prunnet.network.capacity import check_capacity, format_capacity
from prunnet.network.subnetwork import Subnetwork
from prunnet.storage.prun.assembly import assembled, planned
from prunnet.storage.prun.header import Header, check_length, fine_of, is_mean, is_variance, read_header, scales_of
from prunnet.storage.prun.numbers import Floats, from_halves, from_steps
from prunnet.storage.prun.sections import SectionReader
from prunnet.storage.prun.source import Ranges, Source, open_ranges


def unpack(source: Source, capacity: float | None = None, *, backbone: nn.Module | None = None) -> Subnetwork:
    """The subnetwork at `capacity`, reading no byte beyond those it needs.

    source: a path, a file open for reading, or an http(s) address whose server answers range requests.
    capacity: one of the file's grid; default: the largest that the file holds.
    backbone: any instance of the architecture, needed only for one that timm cannot create. It is used, not copied.
    """
    with open_ranges(source) as file:
        header, ends = read_header(file)
        held = check_length(file, header, ends)
        band = held - 1 if capacity is None else header.find(check_capacity(capacity))
        if band >= held:
            raise FamilyError(
                f"{file.name} holds capacities up to {format_capacity(header.grid[held - 1])}; for "
                f"{format_capacity(header.grid[band])} append bytes {ends[held]} to {ends[band + 1]} of the whole file"
            )
        sections = _read_sections(file, header, ends, band)
        try:
            plan = planned(header, header.grid[band], backbone)
            return assembled(plan, header, _decode(header, sections, band), backbone)
        except (FamilyError, ModuleError) as error:
            raise FamilyError(f"{file.name} cannot be unpacked: {error}") from error


def prefix_bytes(source: Source, capacity: float) -> int:
    """How many bytes of the whole file the subnetwork at `capacity` takes.

    An upgrade from a to b is the bytes from prefix_bytes(file, a) up to prefix_bytes(file, b), appended. The header
    alone is read, so a device can ask the prefix it has.
    """
    with open_ranges(source) as file:
        header, ends = read_header(file)
        return ends[header.find(check_capacity(capacity)) + 1]


def _read_sections(file: Ranges, header: Header, ends: list[int], band: int) -> list[bytes]:
    """The payloads up to `band`, in one read, each checked."""
    start = ends[0] - header.sections[0].bytes
    prefix = memoryview(file.read(start, ends[band + 1] - start))
    payloads = []
    for index, section in enumerate(header.sections[: band + 2]):
        payload = bytes(prefix[ends[index] - section.bytes - start : ends[index] - start])
        if hashlib.sha256(payload).hexdigest() != section.sha256:
            part = f"the band to {format_capacity(header.grid[index - 1])}" if index else "the first section"
            raise FamilyError(
                f"{file.name} is damaged: {part} does not match its checksum; "
                f"fetch bytes {ends[index] - section.bytes} to {ends[index]} again"
            )
        payloads.append(payload)
    return payloads


def _decode(header: Header, sections: list[bytes], band: int) -> dict[str, Floats]:
    """Every tensor of the subnetwork that ends with `band`, by name."""
    first = SectionReader(sections[0], header, 0)
    tensors = first.tensors()
    scales = {name: tensors.pop(scales_of(name)) for name in header.layers if scales_of(name) in tensors}
    exponents = {name: first.exponent() for name in header.layers if name not in scales}
    layers = {name: np.zeros(shape, np.float32) for name, shape in header.layers.items()}
    remaining = {name: np.arange(weight.size, dtype=np.int32) for name, weight in layers.items()}
    for index in range(band + 1):
        reader = SectionReader(sections[index + 1], header, index + 1)
        statistics = reader.tensors()
        for mean in filter(is_mean, header.statistics):
            statistics[mean] += statistics.pop(fine_of(mean))
        for variance in filter(is_variance, header.statistics):
            if statistics[variance].min() < 0:
                raise FamilyError(f"{variance} is below zero")
        for (name, weight), (kept, among) in zip(layers.items(), header.joining(index), strict=True):
            member = reader.membership(kept, among)
            positions = remaining[name][member]
            if name in scales:
                values = from_steps(reader.steps(kept), scales[name][positions // weight[0].size])
            else:
                values = from_halves(reader.halves(kept), exponents[name])
            weight.reshape(-1)[positions] = values
            if index < band:
                remaining[name] = remaining[name][~member]
    return {**tensors, **statistics, **layers}
