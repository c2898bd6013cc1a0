import base64
import io

import numpy as np
import pytest
import torch
from PIL import Image

from prunnet.data import ImageSet, Protocol, RetrievalData
from prunnet.evaluation import relevance_of, score
from prunnet.network import Embeddings
from prunnet.report.searches import picture, search_examples

QUERIES, GALLERY, CLASSES = 8, 30, 4
RNG = np.random.default_rng(0)


def images(count: int, cameras: bool = False) -> ImageSet:
    arrays = RNG.integers(0, 256, (count, 10, 10), dtype=np.uint8)
    made = ImageSet.from_arrays(arrays, RNG.integers(0, CLASSES, count), [f"class {i}" for i in range(CLASSES)])
    if not cameras:
        return made
    return ImageSet(made.pixels, made.labels, made.label_names, made.ids, RNG.integers(0, 3, count))


def truth(*keys: str) -> list[dict[str, list[int]]]:
    return [{key: RNG.choice(GALLERY, 3, replace=False).tolist() for key in keys} for _ in range(QUERIES)]


def disjoint_truth() -> list[dict[str, list[int]]]:
    lists = []
    for _ in range(QUERIES):
        order = RNG.permutation(GALLERY).tolist()
        lists.append({"easy": order[:2], "hard": order[2:4], "junk": order[4:12]})
    return lists


PROTOCOLS = {
    "labels": (False, Protocol()),
    "cameras": (True, Protocol(camera_junk=True)),
    "positives": (False, Protocol(ground_truth=truth("positives"))),
    "junk": (False, Protocol(ground_truth=disjoint_truth())),
}


@pytest.mark.parametrize("name", [*PROTOCOLS, "same set"])
def test_the_first_answer_is_right_exactly_when_the_metric_says_so(name: str) -> None:
    if name == "same set":
        one = images(QUERIES)
        data = RetrievalData("d", None, one, one, Protocol(same_set=True))
    else:
        cameras, rule = PROTOCOLS[name]
        data = RetrievalData("d", None, images(QUERIES, cameras), images(GALLERY, cameras), rule)
    gallery = Embeddings(torch.nn.functional.normalize(torch.randn(len(data.gallery), 16), dim=1), "f", 1.0)
    query = gallery if name == "same set" else Embeddings(torch.randn(QUERIES, 16), "f", 0.2)
    expected = score(query.vectors, gallery.vectors, relevance_of(data), ["Recall@1"])["Recall@1"]
    searches = search_examples(data, [query], gallery)
    for number, search in enumerate(searches):
        if np.isnan(expected[number]):
            assert not any(answer.right for answer in search.answers[query.capacity])
        else:
            assert search.answers[query.capacity][0].right == bool(expected[number])


def test_small_pictures_are_kept_exactly_and_large_ones_shrink() -> None:
    def decode(uri: str) -> Image.Image:
        return Image.open(io.BytesIO(base64.b64decode(uri.partition("base64,")[2])))

    small = Image.fromarray(RNG.integers(0, 256, (20, 30), dtype=np.uint8))
    assert np.array_equal(decode(picture(small)), small)
    large = decode(picture(Image.new("RGBA", (600, 300), "red")))
    assert large.size == (112, 56) and large.format == "JPEG"
