"""The header of a `.prun` file: what it holds, in which order, how long each part is, and its checksums.

Everything that is later allocated follows from the header, so every claim in it is checked here, against the others and
against the length of the file.
"""

import hashlib
import json
import math
import struct
from collections.abc import Iterable
from itertools import accumulate, compress, pairwise
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from prunnet.errors import CapacityError, FamilyError, PrunNetError
from prunnet.network.allocation import Uniform
from prunnet.network.capacity import check_capacities, format_capacity
from prunnet.storage.documents import (
    LARGEST_TENSOR,
    Checked,
    Line,
    PreprocessingDocument,
    Recipe,
    Size,
    Word,
    parse,
)
from prunnet.storage.prun.coding import LEAST_BITS, TABLE
from prunnet.storage.prun.numbers import Values
from prunnet.storage.prun.program import Program, check_program
from prunnet.storage.prun.source import Ranges

FORMAT: Final = "prunnet-progressive"
VERSION: Final = 3  # 2 has the same share of every layer, and no program; 1, which nothing released wrote, is not read
MAGIC = b"\x89PRUN\r\n\x1a"  # as PNG's: a transfer as text, or with the eighth bit cut, spoils it
DEFAULT_GRID = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
SMALLEST = 0.01  # bounds the network that a file of a given length can claim

_PREAMBLE = struct.Struct("<8sI32s")  # magic, length and SHA-256 of the header
_SLACK = 16  # bytes by which a range coder may undercut the cost of its symbols at the end

Shapes = dict[str, tuple[Size, ...]]


class Section(Checked):
    """Length in bytes, how many of them tell membership, and the checksum."""

    bytes: Annotated[int, Field(ge=0)]
    membership: Annotated[int, Field(ge=0)]
    sha256: str


class Header(Checked):
    """The JSON header. Tensors are named as in `Subnetwork`; their order is the order in the file."""

    format: Literal["prunnet-progressive"]
    version: Literal[2, 3]
    family_id: Line
    backbone: Recipe | None
    backbone_class: Word
    embedding_dim: Size
    preprocessing: PreprocessingDocument
    values: Values
    stepped: tuple[str, ...]
    grid: tuple[float, ...]
    kept: tuple[tuple[Size, ...], ...] | None = None
    """Per band, how many connections of each layer the prefix keeps; None: the same share of each."""
    layers: Shapes
    statistics: Shapes
    rest: Shapes
    sections: tuple[Section, ...]
    program: Program | None = None
    """What a device runs; None where the file was not packed for it, as in version 2."""

    def joining(self, band: int) -> list[tuple[int, int]]:
        """Of each layer in `band`: how many connections join, and among how many not yet kept."""
        before, after = self.kept_before(band), self.kept_before(band + 1)
        sizes = self.sizes.values()
        return [(k - j, n - j) for j, k, n in zip(before, after, sizes, strict=True)]

    @property
    def sizes(self) -> dict[str, int]:
        """How many connections each layer has."""
        return {name: math.prod(shape) for name, shape in self.layers.items()}

    def kept_before(self, band: int) -> list[int]:
        """How many connections of each layer all bands before `band` hold together."""
        if not band:
            return [0] * len(self.layers)
        if self.kept is not None:
            return list(self.kept[band - 1])
        return list(Uniform().kept(self.grid[band - 1], self.sizes).values())

    def joined(self, band: int) -> list[int]:
        """How many connections of each layer `band` holds."""
        return [joining for joining, _ in self.joining(band)]

    def half_shapes(self, section: int) -> dict[str, tuple[int, ...]]:
        """What `section` holds in half precision besides layers: statistics of a band, or all that is not pruned."""
        if section:
            return {**self.statistics, **{fine_of(n): s for n, s in self.statistics.items() if is_mean(n)}}
        return {**self.rest, **{scales_of(name): self.layers[name][:1] for name in self.stepped}}

    def raw_sizes(self, section: int) -> tuple[int, int, int]:
        """Bytes of exponents, of tables and of low bytes with which `section` begins."""
        halves = self.half_shapes(section)
        values = sum(math.prod(shape) for shape in halves.values())
        in_halves = [name not in self.stepped for name in self.layers]
        if not section:
            return 2 * (len(halves) + sum(in_halves)), TABLE, values
        low = values + sum(compress(self.joined(section - 1), in_halves))
        return 2 * len(halves), TABLE * (1 + len(self.layers)), low

    def least_bytes(self, section: int) -> int:
        """What the values of `section` take at the very least."""
        coded = sum(math.prod(shape) for shape in self.half_shapes(section).values())
        coded += sum(self.joined(section - 1)) if section else 0
        return sum(self.raw_sizes(section)) + max(0, LEAST_BITS * coded // 8 - _SLACK)

    def find(self, capacity: float) -> int:
        """The band that ends at `capacity`."""
        for band, end in enumerate(self.grid):
            if math.isclose(end, capacity, rel_tol=1e-9):
                return band
        raise CapacityError(
            f"the file has no band that ends at {format_capacity(capacity)}; it has "
            + ", ".join(format_capacity(end) for end in self.grid)
        )


def scales_of(layer: str) -> str:
    """The name under which the filter scales of `layer` are stored."""
    return f"{layer}:scales"


def is_mean(name: str) -> bool:
    return name.endswith("running_mean")


def is_variance(name: str) -> bool:
    return name.endswith("running_var")


def fine_of(mean: str) -> str:
    """The name under which what half precision leaves out of a running mean is stored.

    A channel may vary far less than its mean, which therefore has to be known better than to a share of itself.
    """
    return f"{mean}:fine"


def check_grid(grid: Iterable[float]) -> tuple[float, ...]:
    """The distinct capacities of `grid`, smallest first."""
    checked = tuple(reversed(check_capacities(grid)))
    if not checked:
        raise CapacityError("grid is empty; name the capacities to pack")
    if checked[0] < SMALLEST:
        raise CapacityError(
            f"a .prun file starts at {format_capacity(SMALLEST)} or more; found {format_capacity(checked[0])}"
        )
    return checked


def header_bytes(header: Header) -> bytes:
    """The start of a file: magic, length, checksum, and the header as JSON."""
    content = header.model_dump(exclude={"program"} if header.program is None else None)
    text = json.dumps(content, separators=(",", ":")).encode()
    return _PREAMBLE.pack(MAGIC, len(text), hashlib.sha256(text).digest()) + text


def read_header(file: Ranges) -> tuple[Header, list[int]]:
    """The header, and the end of every section as a position in the file; raises FamilyError if anything is amiss."""
    magic, length, checksum = _PREAMBLE.unpack(file.read(0, _PREAMBLE.size))
    if magic != MAGIC:
        raise FamilyError(f"{file.name} is no .prun file (prunnet.pack writes one)")
    start = _PREAMBLE.size + length
    if start > file.length:
        raise FamilyError(f"{file.name} is cut off or damaged: its header would end at byte {start} of {file.length}")
    text = file.read(_PREAMBLE.size, length)
    if hashlib.sha256(text).digest() != checksum:
        raise FamilyError(f"{file.name} is damaged: its header does not match its checksum; fetch it again")
    header = _parse(text, file.name)
    try:
        _check(header)
    except (PrunNetError, TypeError, ValueError) as error:
        raise FamilyError(f"{file.name} is no valid .prun file: {error}") from error
    return header, list(accumulate((section.bytes for section in header.sections), initial=start))[1:]


class _Stamp(BaseModel):
    format: str
    version: int


def _parse(text: bytes, name: str) -> Header:
    invalid = f"{name} is no valid .prun file"
    stamp = parse(_Stamp, text, invalid)
    if stamp.format == FORMAT and stamp.version > VERSION:
        raise FamilyError(
            f"{name} has format version {stamp.version}, this prunnet reads up to {VERSION}; upgrade prunnet"
        )
    return parse(Header, text, invalid)


def _check(header: Header) -> None:
    if check_grid(header.grid) != header.grid:
        raise FamilyError("its grid does not rise")
    if not header.layers or any(len(shape) < 2 for shape in header.layers.values()):
        raise FamilyError("it names no layers, or layers that are none")
    if list(header.stepped) != [name for name in header.layers if name in header.stepped]:
        raise FamilyError("its stepped layers are not among its layers, in their order")
    if header.stepped and header.values != "int8":
        raise FamilyError(f"it has stepped layers, which {header.values} does not allow")
    _check_shapes(header)
    _check_kept(header)
    if header.program is not None:
        if header.version < 3:
            raise FamilyError(f"it has a program, which version {header.version} does not allow")
        check_program(header.program, len(header.layers) + len(header.statistics) + len(header.rest))
    if len(header.sections) != len(header.grid) + 1:
        raise FamilyError("it does not have a section per band")
    for index, section in enumerate(header.sections):
        coded = section.bytes - sum(header.raw_sizes(index))
        if section.bytes < header.least_bytes(index) + section.membership or coded % 4 or section.membership % 4:
            raise FamilyError(f"section {index} of {section.bytes} bytes cannot hold what it claims")


def _check_shapes(header: Header) -> None:
    shapes = [*header.layers.items(), *header.statistics.items(), *header.rest.items()]
    if len({name for name, _ in shapes}) != len(shapes):
        raise FamilyError("it names a tensor twice")
    for name, shape in shapes:
        if math.prod(shape) > LARGEST_TENSOR:
            raise FamilyError(f"{name} is too large")
    head = header.rest.get("head.linear.weight", ())
    if len(head) != 2 or head[0] != header.embedding_dim:
        raise FamilyError(f"its head has shape {head}, which does not give {header.embedding_dim} dimensions")


def _check_kept(header: Header) -> None:
    """Refuse counts that fall, exceed their layer, or add up to another capacity than the band's."""
    if header.kept is None:
        return
    if header.version == 2 or len(header.kept) != len(header.grid):
        raise FamilyError("it does not say for every band how many connections are kept")
    sizes = list(header.sizes.values())
    before = [0] * len(sizes)
    for capacity, kept in zip(header.grid, header.kept, strict=True):
        if len(kept) != len(sizes) or not all(j <= k <= n for j, k, n in zip(before, kept, sizes, strict=True)):
            raise FamilyError(f"its counts at {format_capacity(capacity)} are not those of nested subnetworks")
        if abs(sum(kept) - capacity * sum(sizes)) > len(sizes):  # each is rounded, and one at least
            raise FamilyError(f"it keeps {sum(kept)} of {sum(sizes)} connections at {format_capacity(capacity)}")
        before = list(kept)


def check_length(file: Ranges, header: Header, ends: list[int]) -> int:
    """How many bands the file holds; it must end where one of them ends."""
    if file.length > ends[-1]:
        raise FamilyError(f"{file.name} is damaged: {file.length - ends[-1]} bytes follow its last band")
    if file.length < ends[1]:
        raise FamilyError(f"{file.name} is cut off before the end of its first band; append bytes up to {ends[1]}")
    held = sum(end <= file.length for end in ends[1:])
    if ends[held] != file.length:
        start, end = next(pair for pair in pairwise(ends) if pair[0] < file.length < pair[1])
        raise FamilyError(
            f"{file.name} is cut off inside the band to {format_capacity(header.grid[held])}: it ends at byte "
            f"{file.length}; append up to {end}, or cut at {start}"
        )
    return held
