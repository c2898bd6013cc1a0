"""`manifest.json`: what a gallery holds. A gallery is what its manifest says; it is replaced in one rename.

    manifest.json                  sealed: family, dimension, generations, and every file with its size and SHA-256
    segment-….safetensors          vectors, ids, makers and metadata; never changed
    removed-….safetensors          which rows do not count any more
    approximate-….faiss            an index of the vectors, once there are many

A file that no manifest names is left over from a call that was killed, and is removed by the next that writes.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from prunnet._checked import file_digest, seal, unseal
from prunnet._files import write_text
from prunnet.errors import DamagedError, SearchError
from prunnet.storage.documents import Checked, Line, Size, parse
from prunnet.storage.prun.source import is_address

NAME = "manifest.json"
FORMAT: Literal["prunnet-gallery"] = "prunnet-gallery"

Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[a-z]+-[0-9a-z-]+\.[a-z]+$")]
Share = Annotated[float, Field(ge=0, le=1)]


class StoredFile(Checked):
    """A file beside the manifest, as it was written."""

    name: Name
    bytes: Count
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

    @classmethod
    def of(cls, file: Path, name: str) -> "StoredFile":
        return cls(name=name, bytes=file.stat().st_size, sha256=file_digest(file))

    def damage(self, folder: Path) -> str | None:
        """What is wrong with it, in one line, or None."""
        file = folder / self.name
        try:
            found = file.stat().st_size
            if found != self.bytes:
                return f"{file} is truncated or altered: it has {found:,} of {self.bytes:,} bytes"
            if file_digest(file) != self.sha256:
                return f"{file} is damaged: it does not match its checksum"
        except FileNotFoundError:
            return f"{file} is missing"
        return None


class SegmentEntry(Checked):
    """A segment."""

    file: StoredFile
    rows: Size


class Evidence(Checked):
    """What the run of a new generation measured: M(query, gallery) of both on one data set, as fractions."""

    data: str
    metric: str
    old_in_old: float
    new_in_old: float
    old_in_new: float
    new_in_new: float
    names: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


class Generation(Checked):
    """A family whose members ask, and made vectors; `retired` when none of its vectors are left after an upgrade.

    made_with: where the network is stored, if it was told.
    """

    family_id: Line
    made_with: str | None = None
    evidence: Evidence | None = None
    retired: bool = False

    @classmethod
    def first(cls, family_id: str, made_with: str | None) -> "Generation":
        """Of a new gallery, which finds the network from wherever it is asked."""
        if made_with is not None and not is_address(made_with):
            made_with = str(Path(made_with).resolve())
        return cls(family_id=family_id, made_with=made_with)


class ApproximateEntry(Checked):
    """An index of the first `rows` rows, and what share of the true first ten it finds with `probes` of its lists."""

    file: StoredFile
    rows: Size
    trained_on: Size
    codes: Literal["fp16", "int8"]
    lists: Size
    probes: Size
    recall: Share
    sample: Size


class Gallery(Checked):
    """What every gallery says about itself, wherever it is."""

    format: Literal["prunnet-gallery"] = FORMAT
    version: Literal[1] = 1
    dimension: Size
    generations: Annotated[tuple[Generation, ...], Field(min_length=1)]


class Manifest(Gallery):
    """The whole gallery. Row numbers run through the segments in order; `removed` has a bit for each."""

    revision: Count
    segments: tuple[SegmentEntry, ...] = ()
    removed: StoredFile | None = None
    removed_rows: Count = 0
    approximate: ApproximateEntry | None = None

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def files(self) -> list[StoredFile]:
        """Every file that it names."""
        others = [self.removed, None if self.approximate is None else self.approximate.file]
        return [*(segment.file for segment in self.segments), *(file for file in others if file is not None)]

    def changed(self, **changes: Any) -> "Manifest":
        """The next one."""
        return self.model_copy(update={"revision": self.revision + 1, **changes})

    def write(self, folder: Path) -> None:
        """Make it the gallery in `folder`."""
        write_text(folder / NAME, json.dumps(seal(self.model_dump(mode="json")), indent=1) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """The gallery in `folder`, if there is one and its manifest is what was written."""
    file = folder / NAME
    try:
        content = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise SearchError(f"{folder} is no gallery: it has no {NAME}; make one with prunnet index build") from None
    except (ValueError, RecursionError):
        raise DamagedError(f"{file} is damaged: it is no JSON; copy the gallery again, or build it again") from None
    check_version(content, file)
    manifest = parse(Manifest, unseal(content, file), str(file))
    if manifest.approximate is not None and manifest.approximate.rows > manifest.rows:
        raise DamagedError(f"{file}: its approximate index has more rows than it has itself")
    return manifest


def check_version(content: object, place: object) -> None:
    """Refuse a gallery that a newer prunnet has written, whatever else it says."""
    if isinstance(content, dict) and content.get("format") == FORMAT and content.get("version") not in (1, None):
        raise SearchError(f"{place} is of version {content['version']}, which this prunnet is too old for")
