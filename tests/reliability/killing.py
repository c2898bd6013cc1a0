"""Work in a process that dies at a given file operation, as if killed by the system: nothing is cleaned up.

Operations are those that change what is on the disk, and each fsync. Python tells of most by audit events; the others
are wrapped in the process that is to die.
"""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

Operation = tuple[str, str]
"""What was about to be done, and to which path."""

_EVENTS = {"os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.chmod", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_PROCESSES = multiprocessing.get_context("forkserver")
_ROOT = Path(__file__).parent.parent.parent


@cache
def _start() -> None:
    """A process with everything imported, of which those that die are forks."""
    _PROCESSES.set_forkserver_preload(["tests.reliability.preloaded"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), before)))
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@dataclass(frozen=True)
class Outcome:
    """How a process ended; what it did is known only of one that was not killed."""

    killed: bool
    operations: tuple[Operation, ...] = ()


def run(work: Callable[..., object], root: Path, *arguments: Any, at: int = 0, exchange: bool = True) -> Outcome:
    """`work(*arguments)` in a process of its own that is killed before its `at`-th operation under `root`.

    exchange: whether the system can swap two folders in one step.
    """
    _start()
    receiver, sender = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_work, args=(sender, work, str(root), arguments, at, exchange))
    process.start()
    sender.close()
    try:
        told = receiver.recv()
    except EOFError:
        told = None
    process.join()
    receiver.close()
    if process.exitcode == -signal.SIGKILL:
        return Outcome(killed=True)
    assert not isinstance(told, str), f"the work failed by itself:\n{told}"
    assert process.exitcode == 0 and told is not None, f"the process ended with {process.exitcode}"
    return Outcome(killed=False, operations=tuple(told))


def every_kill(work: Callable[..., object], root: Path, *arguments: Any, exchange: bool = True) -> Iterator[int]:
    """Run `work` killed at its first operation, its second, and so on; ends with the run that nothing kills."""
    at = 1
    while run(work, root, *arguments, at=at, exchange=exchange).killed:
        yield at
        at += 1
    yield 0


def _work(sender: Any, work: Callable[..., object], root: str, arguments: Any, at: int, exchange: bool) -> None:
    operations: list[Operation] = []

    def about_to(name: str, path: object) -> None:
        operations.append((name, os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)))
        if len(operations) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    _watch(about_to, root, exchange)
    try:
        work(*arguments)
    except BaseException:
        sender.send(traceback.format_exc())
        return
    sender.send(operations)


def _watch(about_to: Callable[[str, object], None], root: str, exchange: bool) -> None:
    import sys

    from prunnet import _checked, _files

    def concerns(path: object, folder: object = -1) -> bool:
        relative_to_a_handle = folder != -1  # as shutil.rmtree removes
        return relative_to_a_handle or (isinstance(path, str | bytes) and os.fsdecode(path).startswith(root))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & _WRITING and concerns(path):
                about_to("open", path)
        elif event in _EVENTS and concerns(arguments[0], arguments[-1] if event in _RELATIVE else -1):
            about_to(event, arguments[1] if event == "os.rename" else arguments[0])

    fsync, swap, save = os.fsync, _files._swap, _checked.save_file

    def synced(handle: int) -> None:
        about_to("fsync", Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    def swapped(first: Path, second: Path) -> bool:
        about_to("exchange", second)
        return exchange and swap(first, second)

    def saved(tensors: Any, file: Path, metadata: dict[str, str]) -> None:
        """As safetensors does, whose own operations are not seen: under another name beside the file."""
        about_to("save", file)
        beside = Path(file).with_name(".tmpAbCdEf")
        save(tensors, beside, metadata)
        content = beside.read_bytes()
        beside.write_bytes(content[: len(content) // 2])
        about_to("save half", file)
        beside.write_bytes(content)
        beside.replace(file)

    os.fsync, _files._swap, _checked.save_file = synced, swapped, saved
    sys.addaudithook(hook)


_RELATIVE = {"os.remove", "os.rmdir", "os.mkdir", "os.chmod"}
