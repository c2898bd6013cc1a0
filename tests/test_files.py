"""What is written is there as before or as after, whenever its process is killed, and never in between."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prunnet._files import locked, replace_folder, restore, sweep, write_atomically, write_text
from prunnet.errors import BusyError
from tests.reliability.killing import every_kill, run
from tests.reliability.works import remove_a_folder, write_a_file, write_a_folder

EXCHANGE = pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def texts(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture(params=[0o022, 0o077, 0o002], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_a_file_appears_whole_or_not_at_all(tmp_path) -> None:
    target = tmp_path / "deep" / "file.txt"
    with write_atomically(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    with pytest.raises(RuntimeError), write_atomically(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path) -> None:
    target = tmp_path / "folder"
    with replace_folder(target) as staged:
        (staged / "a").write_text("1")
    with replace_folder(target) as staged:
        (staged / "a").write_text("2")
        (staged / "b").write_text("2")
    (target / "mine").write_text("kept")
    with pytest.raises(RuntimeError), replace_folder(target) as staged:
        (staged / "a").write_text("3")
        raise RuntimeError
    with replace_folder(target) as staged:
        (staged / "a").write_text("4")
    assert {path.name: path.read_text() for path in target.iterdir()} == {"a": "4", "b": "2", "mine": "kept"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("old", [None, "old"])
def test_a_file_whose_writer_is_killed_is_the_old_or_the_new_one(tmp_path, old: str | None) -> None:
    folder = tmp_path / "deep"
    file = folder / "file[1].txt"
    if old is not None:
        write_text(file, old)
    seen = set()
    for at in every_kill(write_a_file, tmp_path, file, "new"):
        text = file.read_text() if file.exists() else None
        assert text in (old, "new"), f"killed at operation {at}"
        seen.add(text)
        write_text(file, old or "again")
        assert names(folder) == [file.name], f"killed at operation {at}"
        if old is None:
            file.unlink()
    assert seen == {old, "new"}


@EXCHANGE
@pytest.mark.parametrize("name", ["model", "model[1]", "a model.old"])
def test_a_folder_whose_writer_is_killed_is_the_old_or_the_new_one(tmp_path, exchange: bool, name: str) -> None:
    target = tmp_path / name
    old = {"first": "old", "inner/second": "old", "mine": "kept", "notes/mine": "kept"}
    new = {**old, "first": "new", "inner/second": "new"}
    write_a_folder(target, "old")
    (target / "mine").write_text("kept")
    (target / "notes").mkdir()
    (target / "notes" / "mine").write_text("kept")
    neighbour = tmp_path / f"{name}.other"
    write_a_folder(neighbour, "neighbour")
    seen = []
    for at in every_kill(write_a_folder, tmp_path, target, "new", exchange=exchange):
        restore(target)
        content = texts(target)
        assert content in (old, new), f"killed at operation {at}"
        seen.append(content == new)
        write_a_folder(target, "old")
        assert names(tmp_path) == sorted([target.name, neighbour.name]), f"killed at operation {at}"
        assert texts(target) == old
    assert sorted(seen) == seen and set(seen) == {False, True}  # once new, it stays new


@EXCHANGE
def test_a_first_folder_whose_writer_is_killed_is_absent_or_whole(tmp_path, exchange: bool) -> None:
    target = tmp_path / "deep" / "er" / "model"
    for at in every_kill(write_a_folder, tmp_path, target, "new", exchange=exchange):
        restore(target)
        assert not target.exists() or texts(target) == {"first": "new", "inner/second": "new"}, f"killed at {at}"
        assert target.exists() or at


def test_a_folder_whose_remover_is_killed_is_there_or_gone(tmp_path) -> None:
    target = tmp_path / "model"
    write_a_folder(target, "old")
    seen = []
    for _ in every_kill(remove_a_folder, tmp_path, target):
        assert not target.exists() or texts(target) == {"first": "old", "inner/second": "old"}
        seen.append(target.exists())
        write_a_folder(target, "old")
        assert names(tmp_path) == ["model"]
    assert set(seen) == {False, True}


def test_a_sweep_leaves_the_locks_that_are_held(tmp_path) -> None:
    (tmp_path / ".gone.lock").touch()
    (tmp_path / ".gone.abcdefgh.tmp").touch()
    (tmp_path / "mine").touch()
    with holder(tmp_path / "busy", "sys.stdin.read()") as process:
        sweep(tmp_path)
        assert names(tmp_path) == [".busy.lock", "mine"]
        process.kill()
    sweep(tmp_path)
    assert names(tmp_path) == ["mine"]


def test_putting_things_right_may_be_killed_as_well(tmp_path) -> None:
    """Wherever the first writer dies, and wherever the one after it does, the old or a new folder is there."""
    target = tmp_path / "model"
    whole = [{"first": text, "inner/second": text} for text in ("old", "new", "newer")]
    write_a_folder(target, "old")
    operations = len(run(write_a_folder, tmp_path, target, "old", exchange=False).operations)
    for first in range(4, operations + 1, 9):
        for _ in every_kill(write_a_folder, tmp_path, target, "newer", exchange=False):
            restore(target)
            assert texts(target) in whole, f"killed at {first}, then again"
            run(write_a_folder, tmp_path, target, "new", at=first, exchange=False)
    restore(target)
    write_a_folder(target, "old")
    assert names(tmp_path) == ["model"]


@EXCHANGE
def test_what_is_named_is_on_the_disk_before_its_name_and_the_name_before_it_counts(tmp_path, exchange: bool) -> None:
    target = tmp_path / "deep" / "model"
    for _ in range(2):
        operations = run(write_a_folder, tmp_path, target, "new", exchange=exchange).operations
        renamed = max(
            i for i, (what, path) in enumerate(operations) if what in ("os.rename", "exchange") and path == str(target)
        )
        before = [path.rpartition(".tmp")[2] for what, path in operations[:renamed] if what == "fsync"]
        for name in ("/first", "/inner/second", "/inner", ""):
            assert name in before, f"{name or 'the folder'} is not synced before it gets its name"
        assert before.index("/first") < len(before) - before[::-1].index("") - 1  # the folder after what it names
        assert ("fsync", str(target.parent)) in operations[renamed:]
    made = [path for what, path in operations if what == "os.mkdir"]
    assert str(tmp_path / "deep") not in made  # the first run made it, and synced its parent
    file = tmp_path / "new" / "file"
    operations = run(write_a_file, tmp_path, file, "text").operations
    renamed = operations.index(("os.rename", str(file)))
    assert any(what == "fsync" and ".tmp" in path for what, path in operations[:renamed])
    assert ("fsync", str(file.parent)) in operations[renamed:]
    assert operations.index(("fsync", str(tmp_path))) > operations.index(("os.mkdir", str(file.parent)))


def test_files_kept_in_a_replaced_folder_are_on_the_disk_before_it_counts(tmp_path) -> None:
    target = tmp_path / "model"
    write_a_folder(target, "old")
    (target / "mine").write_text("kept")
    operations = run(write_a_folder, tmp_path, target, "new").operations
    linked = next(i for i, (what, path) in enumerate(operations) if what == "os.link" and path == str(target / "mine"))
    exchanged = next(i for i, (what, _) in enumerate(operations) if what == "exchange")
    staged = [i for i, (what, path) in enumerate(operations) if what == "fsync" and path.endswith(".tmp")]
    assert any(linked < i < exchanged for i in staged)


@EXCHANGE
def test_through_a_link_its_target_is_replaced(tmp_path, exchange: bool) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    write_a_folder(real, "old")
    link.symlink_to(real)
    (tmp_path / "file").write_text("old")
    (tmp_path / "file link").symlink_to("file")
    run(write_a_folder, tmp_path, link, "new", exchange=exchange)
    run(write_a_file, tmp_path, tmp_path / "file link", "new")
    assert link.is_symlink() and not real.is_symlink() and texts(real)["first"] == "new"
    assert (tmp_path / "file link").is_symlink() and (tmp_path / "file").read_text() == "new"
    (tmp_path / "later").symlink_to(tmp_path / "elsewhere" / "file")
    write_text(tmp_path / "later", "new")
    assert (tmp_path / "later").is_symlink() and (tmp_path / "elsewhere" / "file").read_text() == "new"


def test_links_and_pipes_of_others_are_kept_as_they_are(tmp_path) -> None:
    target = tmp_path / "model"
    write_a_folder(target, "old")
    (target / "gone").symlink_to("nowhere")
    os.mkfifo(target / "pipe")
    write_a_folder(target, "new")
    assert (target / "gone").readlink() == Path("nowhere") and (target / "pipe").is_fifo()


def test_permissions_are_those_that_the_umask_leaves(tmp_path, umask: int) -> None:
    write_a_file(tmp_path / "file", "text")
    write_a_folder(tmp_path / "folder", "text")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {modes[name] for name in ("file", "first", "second")} == {0o666 & ~umask}
    assert {modes[name] for name in ("folder", "inner")} == {0o777 & ~umask}


HOLDER = """
import sys
from prunnet._files import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    {then}
"""


def holder(path: Path, then: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER.format(then=then), str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_is_told_in_one_line(tmp_path) -> None:
    target = tmp_path / "model"
    write_a_folder(target, "old")
    with holder(target, "sys.stdin.read()") as process:
        with pytest.raises(BusyError, match=r"model is being written by another process; wait for it") as caught:
            write_a_folder(target, "new")
        assert "\n" not in str(caught.value) and texts(target)["first"] == "old"
        process.kill()
    write_a_folder(target, "new")  # the system has let go of it
    assert texts(target)["first"] == "new" and names(tmp_path) == ["model"]


def test_a_file_of_two_writers_is_that_of_one_after_the_other(tmp_path) -> None:
    target = tmp_path / "file"
    writers = [
        subprocess.Popen([sys.executable, "-c", f"{WRITER}write({str(target)!r}, {letter!r})"]) for letter in "abc"
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert target.read_text() in {letter * 100_000 for letter in "abc"} and names(tmp_path) == ["file"]


WRITER = """
from prunnet._files import write_text
def write(path, letter):
    for _ in range(50):
        write_text(path, letter * 100_000)
"""


def test_processes_made_by_a_killed_one_do_not_hold_its_locks(tmp_path) -> None:
    target = tmp_path / "run"
    then = "import os; os.fork() or print(os.getpid(), flush=True); sys.stdin.read()"
    with holder(target, then) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            with pytest.raises(BusyError), locked(target):
                pass
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            os.kill(child, 0)  # it lives on
            with locked(target):
                pass
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_reader_leaves_a_replacement_at_work_alone(tmp_path) -> None:
    """Between its two renames a folder is not there for a moment: no sign that its writer has died."""
    target, previous = tmp_path / "model", tmp_path / ".model.abcdefgh.previous"
    with holder(target, "sys.stdin.read()") as process:
        write_a_folder(previous, "old")
        restore(target)
        assert not target.exists()
        process.kill()
    restore(target)
    assert texts(target)["first"] == "old" and names(tmp_path) == ["model"]


def test_restoring_what_never_was_makes_nothing(tmp_path) -> None:
    restore(tmp_path / "elsewhere" / "model")
    assert names(tmp_path) == []
