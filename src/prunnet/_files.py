"""Writing without half-written files: temporary neighbour, fsync, rename."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it becomes `path`, on failure `path` is left as it was."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    os.close(handle)
    temporary = Path(name)
    try:
        temporary.chmod(0o666 & ~_umask())
        yield temporary
        _fsync(temporary)
        temporary.replace(target)
        _fsync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` to `path`, whole or not at all."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replace_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty folder beside `path`; on success its files replace those of `path`, on failure nothing changes.

    Files of `path` that the new folder does not have are kept.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp"))
    previous = staged.with_suffix(".previous")
    try:
        staged.chmod(0o777 & ~_umask())
        yield staged
        for file in staged.iterdir():
            _fsync(file)
        _fsync(staged)
        if target.exists():
            target.rename(previous)
            try:
                staged.rename(target)
            except BaseException:
                previous.rename(target)
                raise
            for entry in previous.iterdir():
                if not (target / entry.name).exists():
                    entry.rename(target / entry.name)
            shutil.rmtree(previous)
        else:
            staged.rename(target)
        _fsync(target.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _fsync(path: Path) -> None:
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
