"""Whether the files of a gallery are what was written, and `verified.json`, which spares reading all of them each time.

It notes which large files were compared with their checksums, and what the system said of them then: size, inode, and
when they were last written and changed. As long as the system says the same they are not read again. No program can set
the time of the last change, so whatever writes to a file is seen. A disk that decays beneath the file system is not; it
is found by `check`, which reads everything.

It is no part of the gallery: without it, or where it is damaged, files are read.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from prunnet._checked import seal, unseal
from prunnet._files import write_text
from prunnet.errors import PrunNetError
from prunnet.search.manifest import StoredFile
from prunnet.storage.documents import Checked, parse

NAME = "verified.json"
READ_ALWAYS = 2**20
"""Files of fewer bytes are compared each time."""
THREADS = min(8, os.cpu_count() or 1)  # that compute checksums

Stamp = tuple[str, int, int, int, int]
"""The SHA-256, and what the system says: size, inode, times of the last writing and the last change."""


class Verified(Checked):
    """`verified.json`, by the names of files."""

    files: dict[str, Stamp]


def unverified(folder: Path, files: Iterable[StoredFile]) -> list[StoredFile]:
    """Those that have to be read."""
    wanted = list(files)
    now = stamps(folder, wanted)
    known = _read(folder) if now else {}
    return [file for file in wanted if file.name not in now or known.get(file.name) != now[file.name]]


def stamps(folder: Path, files: Iterable[StoredFile]) -> dict[str, Stamp]:
    """Of the large ones that are there."""
    found = {}
    for file in files:
        if file.bytes >= READ_ALWAYS:
            with suppress(FileNotFoundError):
                told = (folder / file.name).stat()
                found[file.name] = (file.sha256, told.st_size, told.st_ino, told.st_mtime_ns, told.st_ctime_ns)
    return found


def compare(folder: Path, files: Iterable[StoredFile], named: Iterable[StoredFile]) -> list[str]:
    """Read `files`, and say what is wrong with them, a line each. What is right is noted; of others, what is noted is
    kept as long as they are `named`.
    """
    largest_first = sorted(files, key=lambda file: -file.bytes)  # so that the threads end together
    taken = stamps(folder, largest_first)
    with ThreadPoolExecutor(THREADS) as pool:
        told = list(pool.map(lambda file: file.damage(folder), largest_first))
    wrong = {file.name: line for file, line in zip(largest_first, told, strict=True) if line is not None}
    right = {name: stamp for name, stamp in taken.items() if name not in wrong}
    remember(folder, right, [file for file in named if file.name not in wrong])
    return list(wrong.values())


def remember(folder: Path, taken: Mapping[str, Stamp], named: Iterable[StoredFile]) -> None:
    """Note that the files of these stamps are what was written, beside what is noted of others that are `named`."""
    before = _read(folder)
    noted = {file.name: before[file.name] for file in named if file.name in before} | dict(taken)
    if noted != before:
        with suppress(OSError):  # whoever may not write here reads again
            write_text(folder / NAME, json.dumps(seal({"files": noted}), indent=1) + "\n")
            _outlast(folder / NAME, taken)


def _read(folder: Path) -> dict[str, Stamp]:
    """What is noted and counts. Within one tick of the clock of the file system a file may be changed twice and look
    changed once; so the tick of its last change must have been over when the note was written.
    """
    file = folder / NAME
    try:
        written = file.stat().st_mtime_ns
        noted = parse(Verified, unseal(json.loads(file.read_bytes()), file), str(file))
    except (OSError, ValueError, RecursionError, PrunNetError):
        return {}
    return {name: stamp for name, stamp in noted.files.items() if stamp[-1] < written}


def _outlast(file: Path, taken: Mapping[str, Stamp]) -> None:
    """Wait for that tick, if it lasts milliseconds; where it lasts a second, the next who opens reads again."""
    newest = max((stamp[-1] for stamp in taken.values()), default=0)
    for _ in range(10):
        if newest < file.stat().st_mtime_ns:
            break
        time.sleep(0.002)
        os.utime(file)
