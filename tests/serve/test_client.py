"""`prunnet.Client` downloads as much as it needs, embeds here, and is answered as the index would."""

from pathlib import Path

import pytest
from PIL import Image
from tests.search.vectors import unit
from tests.serve.conftest import Served
from tests.serve.service import Service, running

import prunnet
from prunnet.errors import CapacityError, FamilyError, ServiceError
from prunnet.search.folder import FolderIndex
from prunnet.serve.app import make_app
from prunnet.serve.tokens import Tokens


@pytest.fixture(scope="module")
def pictures(photos: Path) -> list[Image.Image]:
    return [Image.open(file) for file in sorted((photos / "query").rglob("*.png"))[:3]]


def test_it_downloads_a_prefix_and_asks_with_its_own_vectors(
    served: Served, service: Service, pictures: list[Image.Image]
) -> None:
    client = prunnet.Client(service.url)
    assert client.capacity == 0.2 and client.downloaded == served.model.prefixes[0.2] < len(served.model.file)
    assert client.family_id == served.model.family_id
    for capacity in (0.5, 0.2, 1.0):
        client.upgrade(capacity)
        assert client.capacity == capacity
        right = served.index().search(client.encode(pictures), 3)
        found = client.search(pictures, k=3)
        assert [[hit.id for hit in hits] for hits in found] == [[hit.id for hit in hits] for hits in right]
        assert found[0][0].score == pytest.approx(right[0][0].score, abs=1e-6)
        assert found[0][0].metadata["label"] == found[0][0].label
    assert client.downloaded == len(served.model.file)
    label = str(found[0][0].label)
    assert {hit.label for hit in client.search(pictures[0], where={"label": label})[0]} == {label}
    assert service.get(found[0][0].image or "").status == 200


def test_what_it_embeds_is_what_the_network_embeds(
    served: Served, service: Service, pictures: list[Image.Image]
) -> None:
    client = prunnet.Client(service.url, capacity=0.5)
    ours = prunnet.unpack(_stored(served), 0.5).encode(pictures)
    assert (client.encode(pictures).vectors - ours.vectors).abs().max() < 1e-4


def _stored(served: Served) -> Path:
    file = served.run.parent / "stored.prun"
    file.write_bytes(served.model.file)
    return file


def test_it_changes_a_gallery_that_may_be_changed(served: Served, tmp_path: Path) -> None:
    index = FolderIndex.make(tmp_path / "gallery", served.model.family_id, 8)
    (tmp_path / "tokens").write_text("a-token-of-some-length\n")
    app = make_app(index, served.model, writable=True, tokens=Tokens(tmp_path / "tokens"))
    with running(app) as service:
        with pytest.raises(ServiceError, match="a token is needed"):
            prunnet.Client(service.url)
        client = prunnet.Client(service.url + "/", token="a-token-of-some-length")
        assert client.family["count"] == 0 and client.search(Image.new("L", (16, 16))) == [[]]
        made = prunnet.Embeddings(unit(2), client.family_id, 0.5)
        assert client.add(made, ["a", "b"], {"shop": 7}) == 2
        assert client.search(made, k=1)[1][0].id == "b"
        assert client.remove(["a"]) == 1
        with pytest.raises(ServiceError, match="'a' is not there"):
            client.remove(["a"])
        other = prunnet.Embeddings(unit(1), "another", 1.0)
        with pytest.raises(FamilyError, match=f"family another, the gallery of family {client.family_id}"):
            client.search(other)


def test_what_is_wrong_is_one_line(service: Service) -> None:
    with pytest.raises(CapacityError, match=r"no member at 0\.3; it has 20 %, 50 %, 100 %"):
        prunnet.Client(service.url, capacity=0.3)
    with pytest.raises(ServiceError, match="cannot be asked"):
        prunnet.Client("http://127.0.0.1:9")
    with pytest.raises(ServiceError, match="cannot be asked"):
        prunnet.Client("no address")
    with pytest.raises(ServiceError, match="Not Found"):
        prunnet.Client(service.url + "/elsewhere")
