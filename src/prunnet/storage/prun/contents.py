"""What a progressive file holds, band by band, and how close its membership comes to the entropy bound."""

from dataclasses import dataclass

from prunnet.storage.prun.coding import membership_bound
from prunnet.storage.prun.header import check_length, read_header
from prunnet.storage.prun.numbers import Values
from prunnet.storage.prun.source import Source, open_ranges


@dataclass(frozen=True)
class Band:
    """One step of the grid."""

    capacity: float
    start: int
    end: int  # the prefix up to here is the subnetwork at `capacity`
    joining: int
    membership_bits: int
    bound_bits: float
    held: bool

    @property
    def bits_per_connection(self) -> float:
        return self.membership_bits / max(1, self.joining)

    @property
    def bound_per_connection(self) -> float:
        return self.bound_bits / max(1, self.joining)


@dataclass(frozen=True)
class Contents:
    """Header of a progressive file, in numbers; `runs` says whether the runtime can run it."""

    family_id: str
    backbone: str
    values: Values
    runs: bool
    embedding_dim: int
    connections: int
    length: int
    bands: tuple[Band, ...]


def read_contents(source: Source) -> Contents:
    """Bands, bytes and bounds of a progressive file; reads its header alone."""
    with open_ranges(source) as file:
        header, ends = read_header(file)
        held = check_length(file, header, ends)
        bands = tuple(
            Band(
                capacity,
                start=ends[index],
                end=ends[index + 1],
                joining=sum(header.joined(index)),
                membership_bits=8 * header.sections[index + 1].membership,
                bound_bits=sum(membership_bound(kept, among) for kept, among in header.joining(index)),
                held=index < held,
            )
            for index, capacity in enumerate(header.grid)
        )
        return Contents(
            header.family_id,
            header.backbone_class if header.backbone is None else header.backbone.name,
            header.values,
            header.program is not None,
            header.embedding_dim,
            connections=sum(header.sizes.values()),
            length=file.length,
            bands=bands,
        )
