"""The family that is served: its progressive file, what was measured of it, and its members."""

import hashlib
import tempfile
from collections import OrderedDict
from functools import cached_property
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

from prunnet.errors import CapacityError, FamilyError, KindError
from prunnet.evaluation import CompatibilityMatrix
from prunnet.network import Family, PrunableNetwork, Subnetwork
from prunnet.network.capacity import format_capacity
from prunnet.network.preprocessing import Transform
from prunnet.runs import Run
from prunnet.storage import load
from prunnet.storage.opening import is_packed
from prunnet.storage.prun import DEFAULT_GRID, pack, unpack
from prunnet.storage.prun.correction import known_statistics
from prunnet.storage.prun.header import check_length, read_header
from prunnet.storage.prun.source import open_ranges

HELD = 3
"""Members in memory at once; another is unpacked when it is asked for."""


class ServedModel:
    """The whole `.prun` file, of which a device downloads as much as it has room for.

    run: whose matrix and data belong to it, if it is known.
    """

    def __init__(self, file: bytes, name: str = "the file", run: Run | None = None) -> None:
        self.file = file
        self.run = run
        self.digest = hashlib.sha256(file).hexdigest()
        with open_ranges(BytesIO(file)) as ranges:
            ranges.name = name
            self.header, ends = read_header(ranges)
            held = check_length(ranges, self.header, ends)
        if self.header.program is None:
            raise FamilyError(
                f"{name} does not say how an image is embedded, which browsers have to know; pack it again with "
                "prunnet pack RUN --runtime"
            )
        self.prefixes = dict(zip(self.header.grid[:held], ends[1:], strict=False))
        """How many of the first bytes each capacity takes, smallest first."""
        self._members: OrderedDict[float, Subnetwork] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def open(cls, source: str) -> "ServedModel":
        """A `.prun` file as it is, or a run or family, which is packed."""
        if is_packed(source):
            with open_ranges(source) as file:
                file.read(0, 1)  # on the web the length is known afterwards
                return cls(file.read(0, file.length), source)
        run = Run(source)
        return cls(_packed(load(source), run), source, run if run.exists else None)

    @property
    def family_id(self) -> str:
        return self.header.family_id

    @cached_property
    def transform(self) -> Transform:
        """What a picture goes through before a member embeds it."""
        return self.header.preprocessing.preprocessing().transform()

    @cached_property
    def matrix(self) -> CompatibilityMatrix | None:
        """M(query, gallery) as the run measured it."""
        return self.run.matrix if self.run is not None and self.run.state == "done" else None

    def measured(self) -> dict[str, Any] | None:
        """The matrix of this family as plain numbers, smallest capacity first."""
        if self.matrix is None:
            return None
        own = sorted((m.capacity, place) for place, m in enumerate(self.matrix.models) if m.family_id == self.family_id)
        places = [place for _, place in own]
        values = self.matrix.values[places][:, places].tolist()
        return {"capacities": [capacity for capacity, _ in own], "metric": self.matrix.metric, "values": values}

    def in_dense_gallery(self, capacity: float) -> float | None:
        """How well queries of `capacity` do in the gallery of the dense network, if that was measured."""
        known = self.measured()
        if known is None or not {capacity, 1.0} <= {*known["capacities"]}:
            return None
        row, column = map(known["capacities"].index, (capacity, 1.0))
        return float(known["values"][row][column])

    def member(self, capacity: float | None = None) -> Subnetwork:
        """The subnetwork at one of the capacities; default: the largest."""
        wanted = max(self.prefixes) if capacity is None else capacity
        if wanted not in self.prefixes:
            have = ", ".join(map(format_capacity, self.prefixes))
            raise CapacityError(f"there is no member at {wanted:g}; there are {have}")
        with self._lock:
            if wanted not in self._members:
                while len(self._members) >= HELD:
                    self._members.popitem(last=False)
                self._members[wanted] = unpack(BytesIO(self.file[: self.prefixes[wanted]]), wanted).eval()
            self._members.move_to_end(wanted)
            return self._members[wanted]


def _packed(family: Family, run: Run) -> bytes:
    """With every capacity at which batch norm is known."""
    if not isinstance(family, PrunableNetwork):
        raise KindError(f"what is served is one network with nested subnetworks; this is {family.kind}")
    measured = [m.capacity for m in run.matrix.models if m.role != "old"] if run.state == "done" else []
    wanted = {*DEFAULT_GRID, *measured, *family.capacities}
    grid = [capacity for capacity in sorted(wanted) if known_statistics(family, capacity) is not None]
    with tempfile.TemporaryDirectory() as folder:
        return pack(family, Path(folder) / "model.prun", grid=grid, runtime=True).read_bytes()
