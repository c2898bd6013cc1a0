from pathlib import Path
from typing import Any

import pytest
from tests.data.conftest import draw  # noqa: F401 (fixture)
from tests.reliability.works import TINY
from tests.search.servers import KINDS, Store

import prunnet

SETTINGS: dict[str, Any] = {**TINY, "capacities": (0.5,), "quiet": True}


@pytest.fixture(params=["folder", *(pytest.param(kind, marks=pytest.mark.stores) for kind in KINDS)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(request.param, tmp_path)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a`, then `b` that was trained compatible with it; tests leave them as they are."""
    folder = tmp_path_factory.mktemp("runs")
    prunnet.train(out=folder / "a", **SETTINGS)
    prunnet.train(out=folder / "b", **SETTINGS, old=str(folder / "a"), seed=1)
    return folder


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The queries and the gallery of those runs as files, a folder per class."""
    folder = tmp_path_factory.mktemp("photos")
    data = prunnet.load_data("glyphs", **TINY["data_options"])
    for part in ("query", "gallery"):
        images = getattr(data, part)
        for place, id in enumerate(images.ids):
            name = images.label_names[images.labels[place]].split()[0]
            file = folder / part / name / f"{id.partition('/')[2]}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            images.image(place).save(file)
    return folder
