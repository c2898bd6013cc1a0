"""What an index in a folder promises of its files, beside what every index promises."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.search.vectors import FAMILY, contents, names, some

from prunnet import VectorIndex
from prunnet.errors import DamagedError, FamilyError, SearchError
from prunnet.search import folder as folder_module
from prunnet.search.folder import FolderIndex
from prunnet.search.merging import FAN, to_merge


@pytest.fixture
def index(tmp_path: Path) -> FolderIndex:
    made = VectorIndex.create(tmp_path / "gallery", some(1))
    assert isinstance(made, FolderIndex)
    return made


def reopened(index: FolderIndex) -> FolderIndex:
    return FolderIndex(index.folder)


@pytest.mark.parametrize("what", ["truncated", "altered", "missing"])
@pytest.mark.parametrize("kind", ["segment", "removed"])
def test_a_damaged_file_is_named_when_opened(index: FolderIndex, what: str, kind: str) -> None:
    index.add(some(4), names(4))
    index.remove(names(1))
    file = next(index.folder.glob(f"{kind}-*"))
    content = bytearray(file.read_bytes())
    if what == "missing":
        file.unlink()
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes(bytes(content) if what == "altered" else bytes(content[:-1]))
    with pytest.raises(DamagedError, match=file.name):
        VectorIndex.open(index.folder)


def test_a_gallery_is_not_made_in_a_folder_with_other_things(index: FolderIndex) -> None:
    with pytest.raises(SearchError, match="is no gallery"):
        VectorIndex.create(index.folder.parent, some(1))


def test_a_reader_keeps_what_it_opened_until_it_looks_again(index: FolderIndex) -> None:
    reader = reopened(index)
    index.add(some(1), ["first"])
    assert not len(reader)
    reader.refresh()
    assert len(reader) == 1


def test_an_altered_manifest_is_refused(index: FolderIndex) -> None:
    file = index.folder / "manifest.json"
    file.write_text(file.read_text().replace(FAMILY, "family-b"))
    with pytest.raises(DamagedError, match="does not match its checksum"):
        VectorIndex.open(index.folder)


def test_no_bit_of_a_gallery_changes_unnoticed(index: FolderIndex) -> None:
    index.add(some(2), names(2), {"a": "b"})
    for file in sorted(index.folder.iterdir()):
        content = file.read_bytes()
        for place in range(0, len(content), max(1, len(content) // 40)):
            changed = bytearray(content)
            changed[place] ^= 4
            file.write_bytes(bytes(changed))
            with pytest.raises((DamagedError, FamilyError, SearchError)):
                VectorIndex.open(index.folder)
        file.write_bytes(content)
    VectorIndex.open(index.folder)


def test_a_reader_goes_on_while_segments_are_merged_away(index: FolderIndex) -> None:
    index.add(some(5), names(5))
    reader = reopened(index)
    index.compact()
    for number in range(2 * FAN):
        index.add(some(1, seed=number), [f"more-{number}"])
    assert len(reader.search(some(1), 10)[0]) == 5


def test_small_additions_do_not_leave_many_files(index: FolderIndex) -> None:
    for number in range(70):
        index.add(some(1, seed=number), [str(number)])
    assert len(index.manifest.segments) < 2 * FAN
    assert len(list(index.folder.iterdir())) == len(index.manifest.segments) + 1
    assert sorted(contents(reopened(index))) == sorted(map(str, range(70)))


@given(st.lists(st.integers(1, 10**6), max_size=300))
def test_the_number_of_segments_is_bounded_whatever_is_added(added: list[int]) -> None:
    rows: list[int] = []
    for count in added:
        rows.append(count)
        merged = to_merge(rows)
        if merged:
            rows[-merged:] = [sum(rows[-merged:])]
            assert rows[-1] <= folder_module.MOST_ROWS
    assert sum(size < FAN**5 for size in rows) < 5 * FAN + len([size for size in rows if size >= FAN**5]) * FAN


FULL = """
import resource, signal, sys
from prunnet import VectorIndex
from tests.search.vectors import names, some
index = VectorIndex.open(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
index.add(some(2000), names(2000))
"""


def test_a_full_disk_says_so_and_leaves_it_whole(index: FolderIndex) -> None:
    index.add(some(3), names(3))
    before = contents(index)
    done = subprocess.run(
        [sys.executable, "-c", FULL, index.folder], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    )
    assert done.returncode and "File too large" in done.stderr.splitlines()[-1]
    assert contents(reopened(index)) == before
    index.add(some(1, seed=1), ["more"])
    assert len(list(index.folder.iterdir())) == 3  # what was half written is swept
