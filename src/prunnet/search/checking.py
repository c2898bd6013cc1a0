"""Whether a gallery is what was written, to the last byte, and agrees with itself."""

from collections import Counter
from pathlib import Path

import numpy as np

from prunnet.search.manifest import read_manifest
from prunnet.search.snapshot import Snapshot
from prunnet.search.verified import compare


def problems(folder: Path) -> tuple[list[str], int]:
    """What is wrong with the gallery in `folder`, a line each, and how many vectors it has."""
    manifest = read_manifest(folder)
    found = compare(folder, manifest.files, manifest.files)
    if found:
        return found, manifest.rows - manifest.removed_rows
    snapshot = Snapshot.read(folder, trusted=[file.name for file in manifest.files])
    ids: Counter[str] = Counter()
    for number, segment in enumerate(snapshot.segments):
        name = folder / snapshot.manifest.segments[number].file.name
        start = int(snapshot.starts[number])
        kept = np.flatnonzero(~snapshot.removed[start : start + len(segment)])
        ids.update(segment.ids.at(int(row)) for row in kept)
        if not np.isfinite(segment.vectors).all():
            found.append(f"{name} holds vectors with NaN or infinity")
        if len(segment) and int(segment.generations.max()) >= len(snapshot.manifest.generations):
            found.append(f"{name} holds vectors of a family that the manifest does not name")
    found += [f"{folder} holds {id!r} {count} times" for id, count in ids.items() if count > 1]
    return found, len(snapshot)
