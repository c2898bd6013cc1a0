from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.reliability.works import TINY
from tests.search.conftest import photos  # noqa: F401 (fixture)
from tests.serve.service import Service, running

import prunnet
from prunnet.search import images_in
from prunnet.search.folder import FolderIndex
from prunnet.serve.app import make_app
from prunnet.serve.model import ServedModel
from prunnet.serve.queries import example_queries


class Served(NamedTuple):
    """A gallery of pictures, the run that made it, and its file."""

    gallery: Path
    run: Path
    model: ServedModel

    def index(self) -> FolderIndex:
        return FolderIndex(self.gallery)

    def app(self, **options: Any) -> Any:
        return make_app(self.index(), self.model, **options)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, photos: Path) -> Served:  # noqa: F811
    """Tests leave it as it is."""
    folder = tmp_path_factory.mktemp("served")
    options = {"capacities": (0.5,), "evaluate_capacities": (1.0, 0.5, 0.2), "quiet": True}
    prunnet.train(out=folder / "run", **{**TINY, **options})
    family = prunnet.load(folder / "run")
    images = images_in(photos / "gallery")
    prunnet.index(folder / "gallery", family.subnetwork(1.0), images, made_with=str(folder / "run"))
    return Served(folder / "gallery", folder / "run", ServedModel.open(str(folder / "run")))


@pytest.fixture(scope="session")
def service(served: Served) -> Iterator[Service]:
    """Read-only, as it is started without options."""
    with running(served.app(queries=example_queries(served.index(), served.model))) as there:
        yield there
