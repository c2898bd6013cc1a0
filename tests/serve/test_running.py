"""How the service is started, and why it may not be."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.search.vectors import some
from tests.serve.conftest import Served

import prunnet
from prunnet.errors import FamilyError, KindError, MissingExtraError, ServiceError
from prunnet.serve.model import ServedModel
from prunnet.serve.queries import example_queries
from prunnet.serve.running import listen, serve


def test_a_file_is_served_as_it_is(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "a.prun"
    file.write_bytes(served.model.file)
    model = ServedModel.open(str(file))
    assert model.file == served.model.file and model.digest == served.model.digest
    assert model.measured() is None and model.in_dense_gallery(1.0) is None
    assert example_queries(served.index(), model) == []
    file.write_bytes(served.model.file[: served.model.prefixes[0.5]])
    assert [*ServedModel.open(str(file)).prefixes] == [0.2, 0.5]


def test_packing_again_gives_the_same_file(served: Served) -> None:
    assert ServedModel.open(str(served.run)).digest == served.model.digest


def test_members_are_unpacked_when_they_are_asked_for(served: Served) -> None:
    model = ServedModel(served.model.file)
    assert model.member().capacity == 1.0 and model.member(0.2) is model.member(0.2)


def test_what_no_browser_can_run_is_refused(served: Served, tmp_path: Path) -> None:
    family = prunnet.load(served.run)
    bare = prunnet.pack(family, tmp_path / "bare.prun", grid=(0.5, 1.0))
    with pytest.raises(FamilyError, match=r"bare.prun does not say how an image is embedded.*--runtime"):
        ServedModel.open(str(bare))
    family.subnetwork(0.5).save(tmp_path / "small")
    with pytest.raises(KindError, match="this is one subnetwork"):
        ServedModel.open(str(tmp_path / "small"))


def test_another_family_than_that_of_the_gallery_is_refused(served: Served, tmp_path: Path) -> None:
    prunnet.VectorIndex.create(tmp_path / "gallery", some(1))
    with pytest.raises(ServiceError, match="is a gallery of family family-a, and --family is of family"):
        serve(str(tmp_path / "gallery"), str(served.run))


def test_a_port_that_is_taken_is_refused(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServiceError, match=f"port {port} of 127.0.0.1 cannot be listened at"):
            serve(str(served.gallery), port=port)
    with pytest.raises(ServiceError, match="cannot be listened at"):
        serve(str(served.gallery), host="no.such.host.invalid")


def test_what_is_written_is_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_without_the_extra_it_says_what_to_install(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'prunnet\[serve\]'"):
        serve(str(served.gallery))


def test_queries_may_be_pictures_of_a_folder(served: Served, photos: Path) -> None:
    found = example_queries(served.index(), served.model, str(photos / "query"))
    assert found and all(query.label for query in found)


def test_the_command_explains_itself_and_ends_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "prunnet", "serve", str(tmp_path / "none")]
    told = subprocess.run(command, capture_output=True, text=True)
    assert told.returncode == 2 and told.stderr.startswith("prunnet: ") and told.stderr.count("\n") == 1
