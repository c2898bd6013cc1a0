"""Large files are not read again to open a gallery; whatever was written to one since is noticed nevertheless."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.search.vectors import contents, names, some

from prunnet import VectorIndex
from prunnet._checked import seal
from prunnet.errors import DamagedError
from prunnet.search import verified
from prunnet.search.checking import problems
from prunnet.search.folder import FolderIndex
from prunnet.search.manifest import read_manifest
from prunnet.search.verified import NAME, unverified


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderIndex:
    """Its files count as large."""
    monkeypatch.setattr(verified, "READ_ALWAYS", 0)
    made = VectorIndex.create(tmp_path / "gallery", some(1))
    assert isinstance(made, FolderIndex)
    made.add(some(4), names(4))
    made.add(some(4, seed=1), names(4, 4))
    made.remove(names(1))
    return made


def to_read(folder: Path) -> set[str]:
    """Which files will be read to open the gallery."""
    return {file.name for file in unverified(folder, read_manifest(folder).files)}


def named(folder: Path) -> set[str]:
    return {file.name for file in read_manifest(folder).files}


def flip(file: Path) -> None:
    with file.open("r+b") as content:
        content.seek(-3, os.SEEK_END)
        byte = content.read(1)[0]
        content.seek(-3, os.SEEK_END)
        content.write(bytes([byte ^ 1]))


def test_what_was_written_or_read_once_is_not_read_again(index: FolderIndex, tmp_path: Path) -> None:
    folder = index.folder
    assert len(named(folder)) == 3 and to_read(folder) == set()
    index.compact()
    assert to_read(folder) == set()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert to_read(copy) == named(copy)
    assert contents(FolderIndex(copy)) == contents(index)
    assert to_read(copy) == set()


def test_small_files_are_always_read(index: FolderIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verified, "READ_ALWAYS", 2**20)
    assert to_read(index.folder) == named(index.folder)


def put_back_the_time(file: Path) -> None:
    before = file.stat()
    flip(file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def put_another_in_its_place(file: Path) -> None:
    other = file.with_name("other")
    shutil.copy2(file, other)
    put_back_the_time(other)
    other.rename(file)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


@pytest.mark.parametrize("change", [flip, put_back_the_time, put_another_in_its_place, truncate, Path.unlink])
@pytest.mark.parametrize("place", range(3))
def test_a_changed_file_is_named_whatever_the_note_says(
    index: FolderIndex, change: Callable[[Path], None], place: int
) -> None:
    name = sorted(named(index.folder))[place]
    change(index.folder / name)
    for _ in range(2):  # also by the second who opens it
        with pytest.raises(DamagedError, match=name):
            FolderIndex(index.folder)
    assert [name in line for line in problems(index.folder)[0]] == [True]


def test_a_file_changed_as_soon_as_it_was_written_is_named(index: FolderIndex) -> None:
    for number in range(30):
        index.compact()
        index.add(some(3, seed=number), names(3, 8))
        name = max(named(index.folder))
        flip(index.folder / name)
        with pytest.raises(DamagedError, match=name):
            FolderIndex(index.folder)
        flip(index.folder / name)
        FolderIndex(index.folder)


def test_a_file_that_changed_while_a_writer_had_it_open_is_not_noted_by_it(index: FolderIndex) -> None:
    name = max(named(index.folder))
    flip(index.folder / name)
    index.add(some(2, seed=2), ["one more", "another"])
    with pytest.raises(DamagedError, match=name):
        FolderIndex(index.folder)


def test_decay_beneath_the_file_system_is_found_by_check_and_named_by_opening_from_then_on(index: FolderIndex) -> None:
    """The system says of the changed file what it said before: here the note is made to agree with what it says."""
    note, name = index.folder / NAME, max(named(index.folder))
    flip(index.folder / name)
    told = (index.folder / name).stat()
    files = json.loads(note.read_bytes())["files"]
    files[name][1:] = [told.st_size, told.st_ino, told.st_mtime_ns, told.st_ctime_ns]
    while note.stat().st_mtime_ns <= told.st_ctime_ns:
        note.write_text(json.dumps(seal({"files": files})))
    assert to_read(index.folder) == set()
    FolderIndex(index.folder)
    found, _ = problems(index.folder)
    assert len(found) == 1 and name in found[0]
    with pytest.raises(DamagedError, match=name):
        FolderIndex(index.folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"files": 1}', json.dumps(seal({"files": {"a": 1}})).encode()])
def test_a_damaged_note_counts_for_nothing(index: FolderIndex, content: bytes) -> None:
    (index.folder / NAME).write_bytes(content)
    assert to_read(index.folder) == named(index.folder)
    assert len(FolderIndex(index.folder)) == 7
    assert to_read(index.folder) == set()


def test_a_bit_of_the_note_changed_it_counts_for_nothing(index: FolderIndex) -> None:
    note = index.folder / NAME
    content = note.read_bytes()
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 4
        note.write_bytes(bytes(changed))
        assert to_read(index.folder) == named(index.folder)


def test_where_nothing_can_be_noted_everything_is_read(index: FolderIndex) -> None:
    (index.folder / NAME).unlink()
    (index.folder / NAME).mkdir()
    assert len(FolderIndex(index.folder)) == 7
    assert to_read(index.folder) == named(index.folder)
