"""Writing that survives a kill at any moment: what is there is whole, as before or as after.

A file or folder is made under a temporary name beside its place, synced, and then takes the place in one rename. A
folder that another process is writing is refused; what a killed process left behind is swept by the next that writes.
"""

import ctypes
import errno
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prunnet.errors import BusyError

StrPath = str | os.PathLike[str]

_TEMPORARY, _PREVIOUS = ".tmp", ".previous"
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux' renameat2
_HERE = -100  # AT_FDCWD: paths are as given


@contextmanager
def write_atomically(path: StrPath) -> Iterator[Path]:
    """Yield the path of an empty file; on success it becomes `path`, on failure `path` is left as it was.

    It lies in a temporary folder of its own, so that what a library puts beside it on the way is swept with it.
    """
    target = Path(os.path.realpath(path))  # what a link leads to is written, not the link
    with locked(target, wait=True):
        staged = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=_TEMPORARY))
        temporary = staged / target.name
        try:
            temporary.touch()
            yield temporary
            temporary.chmod(0o666 & ~_umask())  # safetensors writes for its owner alone
            _sync(temporary)
            temporary.replace(target)
            _sync(target.parent)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


def write_text(path: StrPath, text: str) -> None:
    """Write `text` to `path`, whole or not at all."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replace_folder(path: StrPath) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success its files replace those of `path`, on failure nothing changes.

    Files of `path` that the new folder does not have are kept. Another process that replaces it meanwhile is refused.
    """
    target = Path(os.path.realpath(path))
    with locked(target):
        staged = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=_TEMPORARY))
        try:
            staged.chmod(0o777 & ~_umask())
            yield staged
            _publish(staged)
            replaces = target.exists()
            if replaces:
                for entry in target.iterdir():
                    if not os.path.lexists(staged / entry.name):
                        _link(entry, staged / entry.name)
            _sync_all(staged)
            if replaces:
                _exchange(staged, target)
            else:
                staged.rename(target)
            _sync(target.parent)
        finally:
            shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def locked(path: StrPath, *, wait: bool = False) -> Iterator[None]:
    """Hold the place `path` for this process: another one gets a `BusyError`, or `wait`s. What was left there by a
    killed process is swept first. The system lets go of it when the process ends, however it does.
    """
    import fcntl

    place = Path(os.path.realpath(path))
    _make_folder(place.parent)
    file = place.parent / f".{place.name}.lock"
    while True:
        handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError as error:
            os.close(handle)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise BusyError(
                f"{place} is being written by another process; wait for it, or choose another path"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), file.stat()):
                break
        os.close(handle)  # its owner has removed the file in between
    _held.add(handle)
    try:
        _put_back(place)
        _sweep(place)
        yield
    finally:
        if handle in _held:
            file.unlink(missing_ok=True)
            _held.remove(handle)
            os.close(handle)


_held: set[int] = set()
"""The locks of this process."""


def _let_go() -> None:
    """A forked process, such as one that loads images, must not hold the locks of a parent that may be killed."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


def sweep(folder: StrPath) -> None:
    """Remove every temporary and free lock directly in `folder`; whoever calls it holds what is written there."""
    for left in Path(folder).glob(f".*.????????{_TEMPORARY}"):
        _remove(left)
    for lock in Path(folder).glob(".*.lock"):
        with suppress(BusyError), locked(lock.with_name(lock.name[1:].removesuffix(".lock"))):
            pass


def remove_folder(path: StrPath) -> None:
    """Remove `path` at once: what a kill leaves of it is swept, not taken for the folder."""
    target = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        gone = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=_TEMPORARY))
        target.rename(gone)  # an empty folder gives way to another one
        shutil.rmtree(gone, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def restore(path: StrPath) -> None:
    """Put back a folder whose replacement was cut short where two renames were needed; one at work is left alone."""
    place = Path(os.path.realpath(path))
    if not place.exists() and _left_of(place, _PREVIOUS):
        with suppress(BusyError, OSError), locked(place):
            pass


def _put_back(place: Path) -> None:
    if not place.exists():
        for previous in _left_of(place, _PREVIOUS):
            previous.rename(place)


def _sweep(place: Path) -> None:
    """Remove what a process left that was killed while it wrote `place`."""
    for previous in _left_of(place, _PREVIOUS):
        previous.rename(previous.with_suffix(_TEMPORARY))  # half removed, it is nothing to put back
    for left in _left_of(place, _TEMPORARY):
        _remove(left)


def _left_of(place: Path, suffix: str) -> list[Path]:
    return list(place.parent.glob(f".{glob.escape(place.name)}.????????{suffix}"))


def _exchange(staged: Path, target: Path) -> None:
    """Swap two folders in one step where the system can, in two that `restore` can complete where it cannot."""
    if _swap(staged, target):
        return
    previous = staged.with_suffix(_PREVIOUS)
    target.rename(previous)
    try:
        staged.rename(target)
    except BaseException:
        previous.rename(target)
        raise
    previous.rename(staged)


def _swap(first: Path, second: Path) -> bool:
    """Whether the system could exchange the two names at once."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    return renameat2(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0  # type: ignore[no-any-return]


def _link(source: Path, target: Path) -> None:
    """The same file, or all files of a folder, under a second name; copied where links are not possible."""
    folder = source.is_dir() and not source.is_symlink()
    try:
        if folder:
            shutil.copytree(source, target, symlinks=True, copy_function=os.link)
        else:
            os.link(source, target, follow_symlinks=False)
    except (OSError, shutil.Error):
        shutil.rmtree(target, ignore_errors=True)
        if folder:
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)


def _make_folder(folder: Path) -> None:
    """`folder` with its parents, each known to its own on the disk."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _publish(folder: Path) -> None:
    """Let everybody read what is in `folder`, as their umask says."""
    for parent, _, files in os.walk(folder):
        for name in files:
            Path(parent, name).chmod(0o666 & ~_umask())


def _sync_all(folder: Path) -> None:
    """See everything in `folder` on the disk, each folder after what it names."""
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            if (file := Path(parent, name)).is_file() and not file.is_symlink():
                _sync(file)
        _sync(Path(parent))


def _sync(path: Path) -> None:
    with suppress(PermissionError):  # folders cannot be opened on every platform
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
