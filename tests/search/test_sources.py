"""Whatever images lie in becomes the same gallery; what is not installed is named."""

import builtins
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from tests.search.test_indexing import command
from tests.search.vectors import contents

import prunnet
from prunnet.errors import ConfigError, MissingExtraError
from prunnet.search import RayEngine, images_in, open_encoder
from prunnet.search.folder import FolderIndex


def test_tables_and_stored_pictures_make_the_gallery_of_their_folder(runs: Path, photos: Path, tmp_path: Path) -> None:
    encoder, folder = open_encoder(runs / "a"), photos / "gallery"
    images = images_in(folder)
    labels = [id.split("/")[0] for id in images.ids]
    (tmp_path / "t.csv").write_text("path,label\n" + "".join(map("{},{}\n".format, images.ids, labels)))
    pictures = [(folder / id).read_bytes() for id in images.ids]
    table = pyarrow.table({"image": pictures, "label": labels, "id": images.ids, "split": labels})
    for number, start in enumerate((0, 9)):
        (tmp_path / "parquet").mkdir(exist_ok=True)
        parquet.write_table(table[start : (9, None)[number]], tmp_path / "parquet" / f"{number}.parquet")
    sources = {
        "folder": images,
        "table": images_in(tmp_path / "t.csv", folder),
        "shards": images_in(tmp_path / "parquet"),
    }
    found: dict[str, Any] = {}
    (tmp_path / "galleries").mkdir()
    for name, source in sources.items():
        prunnet.index(tmp_path / "galleries" / name, encoder, source)
        found[name] = contents(FolderIndex(tmp_path / "galleries" / name))
    assert found["table"] == found["folder"]
    assert [(vector, meta["label"]) for vector, meta, *_ in found["shards"].values()] == [
        (vector, meta["label"]) for vector, meta, *_ in found["folder"].values()
    ]
    assert list(found["shards"]) == images.ids and "path" not in found["shards"][images.ids[0]][1]


def test_without_ray_it_says_what_to_install(runs: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "ray":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"--engine ray needs ray: pip install 'prunnet\[ray\]'"):
        next(RayEngine()(open_encoder(runs / "a"), images_in(photos / "gallery")))
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="--num-cpus is for --engine ray"):
        command("index", "build", runs / "a", photos / "gallery", "--num-cpus", 2)
