"""Embedding by Ray gives the gallery that one process makes. Real workers, started once."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from pyarrow import parquet
from tests.search.servers import Store
from tests.search.test_indexing import command
from tests.search.vectors import contents

import prunnet
from prunnet.errors import SearchError
from prunnet.search import RayEngine, images_in, open_encoder
from prunnet.search.folder import FolderIndex

pytestmark = [
    pytest.mark.stores,
    pytest.mark.filterwarnings("ignore"),  # Ray warns of what Ray does
    pytest.mark.usefixtures("cluster"),
]

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A cluster that runs apart from the tests; its address."""
    node = ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield node.address_info["address"]
    ray.shutdown()


@pytest.fixture(scope="module")
def stored(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The gallery's pictures themselves, in Parquet."""
    images = images_in(photos / "gallery")
    paths = [Path(images.pixels.paths[place]) for place in range(len(images))]  # type: ignore[attr-defined]
    table = pyarrow.table(
        {
            "image": [path.read_bytes() for path in paths],
            "id": images.ids,
            "label": [path.parent.name for path in paths],
        }
    )
    file = tmp_path_factory.mktemp("stored") / "photos.parquet"
    parquet.write_table(table, file, row_group_size=10)
    return file


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("source", ["folder", "stored"])
def test_ray_makes_the_gallery_that_one_process_makes(
    source: str, runs: Path, photos: Path, stored: Path, tmp_path: Path
) -> None:
    encoder, images = open_encoder(runs / "a"), images_in(photos / "gallery" if source == "folder" else stored)
    one = prunnet.index(tmp_path / "one", encoder, images, batch_size=2)
    many = prunnet.index(tmp_path / "many", encoder, images, batch_size=2, engine=RayEngine(concurrency=2))
    expected, found = contents(FolderIndex(tmp_path / "one")), contents(FolderIndex(tmp_path / "many"))
    assert one == many and one.added == len(images) > 8  # more than one part
    assert list(found) == list(expected) and found == expected  # every bit, in the same order


@pytest.mark.usefixtures("one_thread")
def test_an_exported_network_embeds_in_its_runtime(runs: Path, photos: Path, tmp_path: Path) -> None:
    command("export", runs / "a", tmp_path / "a.onnx", "--capacity", 0.5)
    encoder, images = open_encoder(tmp_path / "a.onnx"), images_in(photos / "gallery")
    prunnet.index(tmp_path / "one", encoder, images, batch_size=2)
    prunnet.index(tmp_path / "many", encoder, images, batch_size=2, engine=RayEngine())
    assert contents(FolderIndex(tmp_path / "many")) == contents(FolderIndex(tmp_path / "one"))


def test_what_cannot_be_read_is_listed(runs: Path, tmp_path: Path, draw: Any) -> None:
    folder, encoder = tmp_path / "photos", open_encoder(runs / "a")
    draw(folder / "whole.png")
    for number in range(9):
        (folder / f"broken{number}.png").write_text("no picture")
    done = prunnet.index(tmp_path / "gallery", encoder, images_in(folder), batch_size=2, engine=RayEngine())
    assert done.added == 1 and len(done.unreadable) == 9
    assert all(f"broken{number}.png" in line for number, line in enumerate(done.unreadable))


def test_a_killed_call_goes_on(cluster: str, runs: Path, photos: Path, tmp_path: Path) -> None:
    place, images = tmp_path / "gallery", images_in(photos / "gallery")
    work = {"place": place, "run": runs / "a", "images": photos / "gallery", "address": cluster}
    ended = subprocess.run([sys.executable, "-c", _KILLED, json.dumps({key: str(work[key]) for key in work})])
    assert ended.returncode == -signal.SIGKILL
    before = len(FolderIndex(place))
    done = prunnet.index(place, open_encoder(runs / "a"), images, engine=RayEngine(address=cluster))
    assert before == 3 and (done.present, done.added) == (before, len(images) - before)
    prunnet.index(tmp_path / "whole", open_encoder(runs / "a"), images)
    expected, found = contents(FolderIndex(tmp_path / "whole")), contents(FolderIndex(place))
    assert found.keys() == expected.keys()
    assert all(found[id][0] == pytest.approx(expected[id][0], abs=1e-5) for id in expected)


_KILLED = """
import json, os, signal, sys, prunnet
from prunnet.search import FolderIndex, RayEngine, images_in, indexing, open_encoder, ray_engine

work, added = json.loads(sys.argv[1]), FolderIndex.add

def add(index, *arguments):
    added(index, *arguments)
    if len(index) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

FolderIndex.add = add
indexing.ROWS_AT_ONCE = ray_engine.BATCHES_AT_ONCE = 1
engine = RayEngine(address=work["address"])
prunnet.index(work["place"], open_encoder(work["run"]), images_in(work["images"]), batch_size=1, engine=engine)
"""


class Failing:
    """A network that cannot go on."""

    def __init__(self, encoder: Any) -> None:
        self.capacity, self.family_id, self.preprocessing = encoder.capacity, encoder.family_id, encoder.preprocessing

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        if len(images) > 1:
            raise ArithmeticError("out of numbers")
        return torch.nn.functional.normalize(torch.ones(1, 8))


def test_complaints_are_one_line(runs: Path, photos: Path, tmp_path: Path) -> None:
    encoder, images = open_encoder(runs / "a"), images_in(photos / "gallery")
    with pytest.raises(SearchError, match=r"^a worker of Ray failed: ArithmeticError\('out of numbers'\)$"):
        prunnet.index(tmp_path / "a", Failing(encoder), images, engine=RayEngine())


def test_the_commands_take_ray_and_any_store(runs: Path, photos: Path, stored: Path, store: Store) -> None:
    place, count = store.new(), len(images_in(photos / "gallery"))
    using = ("--engine", "ray", "--num-cpus", 2)
    assert f"{count} added" in command("index", "build", runs / "a", photos / "gallery", "--out", place, *using)
    told = command("index", "upgrade", place, "--to", runs / "b", "--accept", *using)
    assert f"{count} of {count} embedded anew" in told
    assert f"{count} added" in command("index", "add", place, stored, "--prefix", "again/", *using)
