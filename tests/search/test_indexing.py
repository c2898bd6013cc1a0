"""From images to a gallery and back, by the functions and by the commands."""

import csv
import shutil
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from tests.search.servers import Store
from tests.search.vectors import contents
from tests.storage.prun.test_sources import RangeHandler
from typer.testing import CliRunner

import prunnet
from prunnet.cli.command import app
from prunnet.errors import FamilyError, SearchError
from prunnet.evaluation import CompatibilityMatrix
from prunnet.search import VectorIndex, images_in, indexing, mean_average_precision, open_encoder, upgrade
from prunnet.search.upgrading import begin


def command(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def gallery(runs: Path, photos: Path, store: Store) -> VectorIndex:
    place, run = store.new(), runs / "a"
    prunnet.index(place, open_encoder(run), images_in(photos / "gallery"), made_with=str(run))
    return VectorIndex.open(place)


def test_a_gallery_holds_what_its_network_embeds(gallery: VectorIndex, runs, photos, store: Store) -> None:
    images = images_in(photos / "gallery")
    expected = prunnet.load(runs / "a").encode([images.image(place) for place in range(len(images))])
    found = contents(gallery)
    assert sorted(found) == sorted(images.ids) and len(set(images.labels)) > 1
    vectors = [found[id][0] for id in images.ids]
    np.testing.assert_allclose(vectors, np.asarray(expected), atol=max(1e-5, store.precision))
    metadata = found[images.ids[0]][1]
    assert metadata == {"path": str(images.path(0)), "label": images.label_names[images.labels[0]]}


@pytest.mark.parametrize("capacity", [1.0, 0.5])
def test_retrieval_through_the_index_equals_the_evaluation(runs: Path, store: Store, capacity: float) -> None:
    run = prunnet.Run(runs / "a")
    data = run.load_data()
    place = store.new()
    prunnet.index(place, open_encoder(run.folder), data.gallery)
    gallery, asking = VectorIndex.open(place), open_encoder(run.folder, capacity)
    queries = prunnet.evaluation.embed_images(asking, data.query)
    labels = [data.query.label_names[label] for label in data.query.labels]
    measured = mean_average_precision(gallery, queries, labels, [None] * len(labels))
    assert measured == pytest.approx(run.matrix.at(capacity, 1.0), rel=1e-12 if store.precision < 1e-5 else 0.02)


def test_an_image_is_no_answer_to_itself(gallery: VectorIndex, runs, photos, store: Store) -> None:
    images = images_in(photos / "gallery")
    encoder = open_encoder(runs / "a")
    queries = prunnet.evaluation.embed_images(encoder, images)
    labels = [images.label_names[label] for label in images.labels]
    paths = [str(images.path(place)) for place in range(len(images))]
    similarity = (queries.vectors @ queries.vectors.T).numpy()
    expected = [
        _average_precision(np.delete(row, own), np.delete(images.labels == images.labels[own], own))
        for own, row in enumerate(similarity)
    ]
    assert mean_average_precision(gallery, queries, labels, paths) == pytest.approx(
        np.mean(expected), abs=1e-9 if store.precision < 1e-5 else 0.01
    )


def _average_precision(scores: Any, right: Any) -> float:
    hits = right[np.argsort(-scores, kind="stable")]
    places = np.flatnonzero(hits) + 1
    return float(np.mean(np.arange(1, len(places) + 1) / places))


def test_a_stopped_call_goes_on(runs: Path, photos: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    images, encoder, place = images_in(photos / "gallery"), open_encoder(runs / "a"), store.new()
    monkeypatch.setattr(indexing, "ROWS_AT_ONCE", 4)
    calls = iter(range(3))

    class Stopping:
        capacity, family_id, preprocessing = encoder.capacity, encoder.family_id, encoder.preprocessing

        def __call__(self, batch: Any) -> Any:
            next(calls)
            return encoder(batch)

    with pytest.raises((StopIteration, RuntimeError)):
        prunnet.index(place, Stopping(), images, batch_size=4)
    before = len(VectorIndex.open(place))
    done = prunnet.index(place, encoder, images)
    assert 0 < before < len(images) and (done.present, done.added) == (before, len(images) - before)
    assert prunnet.index(place, encoder, images).added == 0


def test_what_cannot_be_read_is_listed_and_the_same_picture_taken_once(runs, tmp_path, store: Store, draw: Any) -> None:
    folder, encoder, place = tmp_path / "photos", open_encoder(runs / "a"), store.new()
    draw(folder / "a" / "1.png")
    shutil.copy(folder / "a" / "1.png", folder / "2.png")
    (folder / "broken.png").write_text("no picture")
    done = prunnet.index(place, encoder, images_in(folder), unique=True)
    assert (done.added, done.repeated, len(done.unreadable)) == (1, 1, 1) and "broken.png" in done.unreadable[0]
    again = prunnet.index(place, encoder, images_in(folder), unique=True, prefix="again/")
    assert (again.added, again.repeated) == (0, 2)
    plain = prunnet.index(place, encoder, images_in(folder), prefix="more/")
    assert plain.added == 2 and str(plain) == "2 added, 1 cannot be read"
    (tmp_path / "other" / "a").mkdir(parents=True)
    draw(tmp_path / "other" / "a" / "1.png")
    with pytest.raises(SearchError, match=r"already holds 'more/a/1.png', from .*photos"):
        prunnet.index(place, encoder, images_in(tmp_path / "other"), prefix="more/")
    with pytest.raises(SearchError, match="holds no images"):
        (tmp_path / "empty").mkdir()
        images_in(tmp_path / "empty")


def test_the_commands_build_ask_and_look_after_a_gallery(runs, photos, tmp_path, store: Store, monkeypatch) -> None:
    monkeypatch.setattr("webbrowser.open", lambda _: True)
    place, answers = store.new(), tmp_path / "answers.csv"
    count = len(images_in(photos / "gallery"))
    assert f"{count} added" in command("index", "build", runs / "a", photos / "gallery", "--out", place)
    assert f"{count} there already" in command("index", "build", runs / "a", photos / "gallery", "--store", place)
    command("pack", runs / "a", "--out", tmp_path / "a.prun", "--grid", ".5,1")
    command("export", runs / "a", tmp_path / "a.onnx", "--capacity", 0.5)
    command("prune", runs / "a", "--capacity", 0.5, "--out", tmp_path / "small")
    expected = prunnet.Run(runs / "a").matrix
    for model, capacity in ((runs / "a", 1.0), (tmp_path / "a.onnx", 0.5), (tmp_path / "small", 0.5)):
        told = command("search", place, photos / "query", "--model", model, "-k", 3, "--out", answers)
        measured = float(told.rpartition("mAP ")[2])
        assert measured == pytest.approx(100 * expected.at(capacity, 1.0), abs=0.005 if store.precision < 1e-5 else 1)
    packed = ("--model", tmp_path / "a.prun")
    assert "mAP" in command("search", place, photos / "query", *packed, "--out", answers, "--open")
    rows = list(csv.DictReader(answers.read_text().splitlines()))
    assert len(rows) == 10 * len(images_in(photos / "query")) and Path(rows[0]["path"]).is_file()
    page = answers.with_suffix(".html").read_text()
    assert "data:image/png" in page and "http" not in page and "<script" not in page
    query = next((photos / "query").rglob("*.png"))
    found = command("search", place, query, "-k", 1, "--where", f"label={query.parent.name}")
    assert f" {query.parent.name} " in found and "│ 1 │" in found
    id = images_in(photos / "gallery").ids[0]
    assert f"{count - 1} left" in command("index", "remove", place, id)
    assert "1 added" in command("index", "add", place, photos / "gallery", "--capacity", 0.5)
    told = command("index", "info", place)
    assert "50 %" in told and "search is" in told and ("1 vectors were removed" in told or store.kind != "folder")
    command("index", "compact", place)
    assert f"{count:,} vectors" in command("index", "check", place)
    if store.kind != "folder":
        return
    segment = next(place.glob("segment-*"))
    segment.write_bytes(segment.read_bytes()[:-1])
    assert f"{segment.name} is truncated" in command("index", "check", place, code=1)


def test_a_packed_file_asks_from_its_address(runs: Path, photos: Path, tmp_path: Path) -> None:
    place, file, served = tmp_path / "gallery", tmp_path / "a.prun", list[tuple[int, int]]()
    prunnet.index(place, open_encoder(runs / "a"), images_in(photos / "gallery"))
    command("pack", runs / "a", "--out", file, "--grid", ".5,1")
    asked = ("search", place, photos / "query", "--capacity", 0.5, "--out", tmp_path / "answers.csv", "--model")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeHandler, file.read_bytes(), served)) as server:
        Thread(target=server.serve_forever).start()
        told = command(*asked, f"http://127.0.0.1:{server.server_port}/a.prun")
        server.shutdown()
    assert told == command(*asked, file) and "mAP" in told
    assert max(end for _, end in served) < file.stat().st_size  # the prefix alone was fetched


def test_an_upgrade_replaces_every_vector_and_keeps_what_is_known(gallery: VectorIndex, runs, photos, store) -> None:
    new = open_encoder(runs / "b")
    image = next((photos / "query").rglob("*.png"))
    with pytest.raises(FamilyError, match=f"{new.family_id} do not belong into"):
        command("search", gallery.place, image, "--model", runs / "b")
    begin(gallery, prunnet.Run(runs / "b"), accept=True)
    old = contents(gallery)
    id = next(iter(old))
    first = prunnet.load(runs / "a").encode(images_in(photos / "gallery").image(0))
    gallery.add(first, [id], {**old[id][1], "store": "7"})
    assert new.family_id not in {family for *_, family in contents(gallery).values()}
    command("search", gallery.place, image, "--model", runs / "b")  # new queries are answered by old vectors
    done = upgrade(gallery, prunnet.Run(runs / "b"), new)
    found = contents(VectorIndex.open(gallery.place))
    assert done.indexed.added == len(old) and not done.left and found.keys() == old.keys()
    assert {family for *_, family in found.values()} == {new.family_id} and found[id][1]["store"] == "7"
    assert [generation.retired for generation in gallery.generations] == [True, False]
    old_asks = command("search", gallery.place, photos / "query", "--model", runs / "a")
    matrix = prunnet.Run(runs / "b").matrix
    names = [model.name for model in matrix.models]
    crossed = matrix.values[names.index("old 100 %"), names.index("new 100 %")]
    measured = float(old_asks.rpartition("mAP ")[2])
    assert measured == pytest.approx(100 * crossed, abs=0.005 if store.precision < 1e-5 else 1)
    with pytest.raises(FamilyError, match="was upgraded from family"):
        command("index", "add", gallery.place, photos / "query", "--model", runs / "a")
    with pytest.raises(FamilyError, match=r"was not trained compatible.*make a new gallery: prunnet index build"):
        upgrade(gallery, prunnet.Run(runs / "a"), open_encoder(runs / "a"))


@pytest.mark.parametrize("worse", [True, False])
def test_an_upgrade_is_offered_on_evidence(gallery: VectorIndex, runs, tmp_path: Path, worse: bool) -> None:
    shutil.copytree(runs / "b", tmp_path / "b")
    matrix = prunnet.Run(tmp_path / "b").matrix
    names = [model.name for model in matrix.models]
    old, new = names.index("old 100 %"), names.index("new 100 %")
    values = matrix.values.copy()
    values[old, old], values[new, old] = 0.348, 0.297 if worse else 0.4
    told = CompatibilityMatrix(matrix.models, values, matrix.metric, matrix.data, matrix.queries)
    told.to_json(tmp_path / "b" / "evaluation" / "matrix.json")
    if worse:
        with pytest.raises(SearchError, match=r"old gallery 34.8, new in the old 29.7.*--accept takes that"):
            command("index", "upgrade", gallery.place, "--to", tmp_path / "b")
        assert len(VectorIndex.open(gallery.place).generations) == 1
    told_by = command("index", "upgrade", gallery.place, "--to", tmp_path / "b", *(["--accept"] if worse else []))
    assert f"{len(gallery)} of {len(gallery)} embedded anew" in told_by
    assert "new in the old" in command("index", "info", gallery.place)


def test_an_upgrade_without_all_images_leaves_the_others_answering(runs, photos, tmp_path, store: Store) -> None:
    folder, place = tmp_path / "photos", store.new()
    shutil.copytree(photos / "gallery", folder)
    prunnet.index(place, open_encoder(runs / "a"), images_in(folder))
    gone = next(folder.rglob("*.png"))
    gone.rename(tmp_path / "kept.png")
    arguments = ("index", "upgrade", place, "--to", runs / "b", "--accept")
    assert "1 are still of an older family" in command(*arguments, code=1)
    gallery = VectorIndex.open(place)
    assert len({family for *_, family in contents(gallery).values()}) == 2
    (tmp_path / "kept.png").rename(gone)
    assert "1 of " in command(*arguments)
    assert len({family for *_, family in contents(VectorIndex.open(gallery.place)).values()}) == 1
