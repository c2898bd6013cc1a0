import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.evaluation.conftest import images, made, make_family
from tests.evaluation.slow import rankings, slow_metric

import prunnet
from prunnet.data import ImageSet, Protocol, RetrievalData
from prunnet.data.images import FilePixels
from prunnet.errors import CapacityError, EvaluationError, FamilyError, UnreadableImageError
from prunnet.evaluation import CompatibilityMatrix, compatibility_matrix, embed_images, evaluate
from prunnet.network import Embeddings, PrunableNetwork


def test_the_matrix_of_a_family_is_the_metric_of_its_subnetworks_embeddings(family, data) -> None:
    matrix = evaluate(family, data, (1, 0.5, 0.2))
    capacities = (1.0, 0.5, 0.2)
    encoded = {
        part: [family.subnetwork(c).encode([s.image(i) for i in range(len(s))]).vectors for c in capacities]
        for part, s in (("query", data.query), ("gallery", data.gallery))
    }
    for row, query in enumerate(encoded["query"]):
        for column, gallery in enumerate(encoded["gallery"]):
            hits = rankings((query @ gallery.T).numpy(), data.query.labels, data.gallery.labels)
            slow = np.mean([slow_metric("mAP", hit) for hit in hits])
            assert matrix.values[row, column] == pytest.approx(slow, abs=1e-3)
    assert [model.capacity for model in matrix.models] == [1.0, 0.5, 0.2]
    assert {model.family_id for model in matrix.models} == {family.family_id}
    assert (matrix.metric, matrix.data, matrix.queries, matrix.unanswered) == ("mAP", "patches", 10, 0)
    np.testing.assert_allclose(matrix.per_query.mean(-1), matrix.values)


def test_who_else_is_measured_changes_no_digit(data) -> None:
    many = replace(data, query=images(np.arange(500) % 5, 3))
    query, gallery = made({1.0: 0.4, 0.5: 0.5, 0.2: 0.6}, many)
    alone = compatibility_matrix(query[:1], gallery[:1], many)
    assert compatibility_matrix(query, gallery, many).at(1.0, 1.0) == alone.at(1.0, 1.0)


def test_one_set_is_embedded_once_and_answers_no_image_with_itself(family, data) -> None:
    both = RetrievalData("one", None, data.gallery, data.gallery, Protocol(metric="Recall@1", same_set=True))
    matrix = evaluate(family, both, (1.0,))
    vectors = embed_images(family.subnetwork(1.0), data.gallery).vectors
    similarity = (vectors @ vectors.T).fill_diagonal_(-2)
    labels = torch.from_numpy(data.gallery.labels)
    assert matrix.at(1.0, 1.0) == pytest.approx((labels[similarity.argmax(1)] == labels).float().mean().item())


def test_cameras_and_ground_truth_reach_the_score(data) -> None:
    query, gallery = made({1.0: 0.4}, data)
    cameras = np.arange(len(data.gallery)) % 2
    data.query.cameras, data.gallery.cameras = np.zeros(len(data.query), dtype=np.int64), cameras
    aware = RetrievalData("aware", None, data.query, data.gallery, Protocol(camera_junk=True))
    similarity = (query[0].vectors @ gallery[0].vectors.T).numpy()
    hits = rankings(similarity, data.query.labels, data.gallery.labels, data.query.cameras, cameras)
    expected = np.mean([slow_metric("mAP", hit) for hit in hits])
    assert compatibility_matrix(query, gallery, aware).at(1.0, 1.0) == pytest.approx(expected)

    listed = [{"positives": np.flatnonzero(data.gallery.labels == label).tolist()} for label in data.query.labels]
    truth = replace(data, protocol=Protocol(metric="mAP@100", ground_truth=listed))
    plain = compatibility_matrix(query, gallery, data)
    assert compatibility_matrix(query, gallery, truth).at(1.0, 1.0) == pytest.approx(plain.at(1.0, 1.0))


def test_unanswered_queries_are_left_out_and_counted(data) -> None:
    lonely = replace(data, query=images(np.array([0, 1, 4, 4]), 3), gallery=images(np.array([0, 0, 1, 2]), 4))
    matrix = compatibility_matrix(*made({1.0: 0.0}, lonely), lonely)
    assert (matrix.queries, matrix.unanswered, matrix.at(1.0, 1.0)) == (2, 2, 1.0)
    nothing = replace(data, query=images(np.array([4, 4]), 3), gallery=images(np.array([0, 1]), 4))
    with pytest.raises(EvaluationError, match="patches: nothing in the gallery answers any of the 2 queries"):
        compatibility_matrix(*made({1.0: 0.0}, nothing), nothing)


def test_a_foreign_family_is_refused_by_name_unless_asked_for(data) -> None:
    ours, theirs = made({1.0: 0.1}, data, "ours"), made({1.0: 0.2}, data, "theirs")
    query, gallery = ours[0] + theirs[0], ours[1] + theirs[1]
    with pytest.raises(FamilyError, match="family theirs do not belong to family ours"):
        compatibility_matrix(query, gallery, data)
    matrix = compatibility_matrix(query, gallery, data, old="theirs")
    assert [model.name for model in matrix.models] == ["new 100 %", "old 100 %"]
    with pytest.raises(EvaluationError, match="the same subnetwork"):
        compatibility_matrix(query, gallery[::-1], data, old="theirs")


def test_two_families_when_asked_explicitly(family, data) -> None:
    matrix = evaluate(family, data, (1, 0.5), old=make_family(1), old_capacities=(1,))
    assert [model.name for model in matrix.models] == ["new 100 %", "new 50 %", "old 100 %"]
    assert matrix.values.shape == (3, 3)
    with pytest.raises(EvaluationError, match="8 and 16 dimensions"):
        evaluate(family, data, (1,), old=make_family(1, embedding_dim=16))


def test_a_better_network_scores_better_and_noise_breaks_compatibility(data) -> None:
    good = compatibility_matrix(*made({1.0: 0.05, 0.2: 0.05}, data), data)
    assert good.check()
    query, gallery = made({1.0: 0.05, 0.2: 0.05}, data)
    turned = torch.roll(query[1].vectors, 1, dims=1), torch.roll(gallery[1].vectors, 1, dims=1)
    apart = compatibility_matrix(
        [query[0], Embeddings(turned[0], "a", 0.2)], [gallery[0], Embeddings(turned[1], "a", 0.2)], data
    )
    assert len(apart.check().violations) == 2, "equally good alone, useless together"


def test_embeddings_are_kept_and_used_again(family, data, tmp_path: Path) -> None:
    first = evaluate(family, data, (1, 0.5), store=tmp_path)
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    assert len(kept) == 4
    assert all(file.name.startswith(family.family_id) for file in kept)
    more = evaluate(family, data, (1, 0.5, 0.2), store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 6
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    np.testing.assert_array_equal(more.values[:2, :2], first.values)


def test_an_interrupted_evaluation_keeps_what_it_has(family, data, tmp_path: Path) -> None:
    class Interrupted(PrunableNetwork):
        def subnetwork(self, capacity: float):
            if capacity < 0.5:
                raise KeyboardInterrupt
            return super().subnetwork(capacity)

    family.__class__ = Interrupted
    with pytest.raises(KeyboardInterrupt):
        evaluate(family, data, (1, 0.5, 0.2), store=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_capacity_never_adapted_is_adapted_on_the_training_images(family, data) -> None:
    with pytest.warns(prunnet.NotAdaptedWarning):
        evaluate(family, data, (0.3,))
    taught = replace(data, train=images(np.arange(40) % 5, 5))
    matrix = evaluate(family, taught, (1, 0.3))
    assert evaluate(family, taught, (1, 0.3)).to_json() == matrix.to_json()
    assert not family.subnetwork(0.3).adapted, "the family is left as it was"


@pytest.mark.parametrize("change", ["weights", "pixels", "ids", "damage"])
def test_kept_embeddings_of_something_else_are_not_used(family, data, tmp_path: Path, change: str) -> None:
    subnetwork, gallery = family.subnetwork(0.5), data.gallery
    embed_images(subnetwork, gallery, store=tmp_path)
    (file,) = tmp_path.iterdir()
    if change == "weights":
        subnetwork.backbone[0].weight.data *= torch.linspace(0.1, 3, 6)[:, None, None, None]
    elif change == "pixels":
        gallery = images(gallery.labels, 9)
    elif change == "ids":
        gallery.ids = gallery.ids[::-1]
    else:
        file.write_bytes(file.read_bytes()[:-7])
    expected = embed_images(subnetwork, gallery).vectors
    torch.testing.assert_close(embed_images(subnetwork, gallery, store=tmp_path).vectors, expected)
    assert len(list(tmp_path.iterdir())) == (1 if change == "damage" else 2)


def test_mistakes_are_found_before_anything_is_embedded(family, data, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="unknown metric 'map'"):
        evaluate(family, data, (1,), "map", store=tmp_path)
    with pytest.raises(CapacityError, match=r"for 80 % write 0\.8"):
        evaluate(family, data, (1, 80), store=tmp_path)
    with pytest.raises(EvaluationError, match="at least one capacity"):
        evaluate(family, data, (), store=tmp_path)
    assert not list(tmp_path.iterdir())


def on_disk(data: RetrievalData, folder: Path, damaged: dict[str, list[int]]) -> RetrievalData:
    """The same images as files, of which some are no longer images."""

    def stored(part: str, images: ImageSet) -> ImageSet:
        paths = [folder / part / f"{number}.png" for number in range(len(images))]
        paths[0].parent.mkdir(parents=True)
        for number, path in enumerate(paths):
            images.image(number).save(path)
        for number in damaged.get(part, []):
            paths[number].write_bytes(b"damaged")
        ids = [f"{part}/{path.name}" for path in paths]
        return ImageSet(FilePixels(paths), images.labels, images.label_names, ids)

    gallery = stored("gallery", data.gallery)
    return replace(data, query=gallery if data.query is data.gallery else stored("query", data.query), gallery=gallery)


@pytest.fixture(params=["labels", "same set", "ground truth"])
def kind_of_data(request: pytest.FixtureRequest, data: RetrievalData) -> RetrievalData:
    if request.param == "same set":
        return RetrievalData("one", None, data.gallery, data.gallery, Protocol(same_set=True))
    if request.param == "ground truth":
        truth = [{"easy": [number], "hard": [number + 10], "junk": [number + 20]} for number in range(10)]
        return replace(data, protocol=Protocol(metric="revisited", ground_truth=truth))
    return data


def test_unreadable_images_are_left_out_and_named(family, kind_of_data, tmp_path: Path) -> None:
    one_set = kind_of_data.query is kind_of_data.gallery
    lost_queries, lost_gallery = ([0, 29], [0, 29]) if one_set else ([2, 9], [0, 29, 5])
    damaged = on_disk(kind_of_data, tmp_path, {"query": lost_queries, "gallery": lost_gallery})
    queries, gallery = (
        np.setdiff1d(np.arange(len(images)), lost)
        for images, lost in ((damaged.query, lost_queries), (damaged.gallery, lost_gallery))
    )
    expected = evaluate(family, kind_of_data.take(queries, gallery), (1, 0.5))
    matrix = evaluate(family, damaged, (1, 0.5), on_error="skip", batch_size=4, store=tmp_path / "store")
    np.testing.assert_allclose(matrix.per_query, expected.per_query, atol=1e-6)
    assert (matrix.queries, matrix.unanswered) == (expected.queries, expected.unanswered)
    assert matrix.unreadable_queries == tuple(damaged.query.ids[number] for number in sorted(lost_queries))
    assert matrix.unreadable_gallery == tuple(damaged.gallery.ids[number] for number in sorted(lost_gallery))
    caption = f"2 more not asked, since they cannot be read; the gallery lacks {len(lost_gallery)} images"
    assert caption in str(matrix)
    with pytest.raises(UnreadableImageError, match=r"\.png: cannot be read as an image"):
        evaluate(family, damaged, (1, 0.5), store=tmp_path / "store")
    matrix.to_json(tmp_path / "matrix.json")
    assert CompatibilityMatrix.from_json(tmp_path / "matrix.json").to_json() == matrix.to_json()


def test_a_query_whose_only_answer_is_unreadable_is_unanswered(family, data, tmp_path: Path) -> None:
    lonely = replace(data, query=images(np.array([0, 1]), 3), gallery=images(np.array([0, 0, 1, 2]), 4))
    matrix = evaluate(family, on_disk(lonely, tmp_path, {"gallery": [2]}), (1.0,), on_error="skip")
    assert (matrix.queries, matrix.unanswered, matrix.unreadable_queries) == (1, 1, ())


def test_only_whole_sets_of_embeddings_are_kept(family, data, tmp_path: Path) -> None:
    damaged = on_disk(data, tmp_path, {"query": [4]})
    evaluate(family, damaged, (1.0,), store=tmp_path / "store", on_error="skip")
    assert len(list((tmp_path / "store").iterdir())) == 1
    data.query.image(4).save(tmp_path / "query/4.png")
    mended = evaluate(family, damaged, (1.0,), store=tmp_path / "store", on_error="skip")
    assert mended.unreadable_queries == () and mended.queries == 10


def test_images_none_of_which_can_be_read_are_refused(family, data, tmp_path: Path) -> None:
    damaged = on_disk(data, tmp_path, {"query": list(range(10))})
    with pytest.raises(EvaluationError, match=r"none of the 10 images can be read, query/0\.png among them"):
        evaluate(family, damaged, (1.0,), on_error="skip")


class Together:
    """Ranks that are threads of this process."""

    def __init__(self, rank: int, size: int, shared: dict, barrier: threading.Barrier) -> None:
        self.rank, self.size, self._shared, self._barrier = rank, size, shared, barrier

    def copy_from(self, tensor: torch.Tensor, rank: int) -> None:
        if rank == self.rank:
            self._shared["tensor"] = tensor
        self._barrier.wait(60)
        tensor.copy_(self._shared["tensor"])
        self._barrier.wait(60)


def test_ranks_that_share_the_work_leave_out_the_same_images(family, data, tmp_path: Path) -> None:
    damaged = on_disk(data, tmp_path, {"query": [3], "gallery": [7, 8]})
    alone = evaluate(family, damaged, (1, 0.5, 0.2), on_error="skip")
    shared, barrier = {}, threading.Barrier(2)

    def work(rank: int) -> CompatibilityMatrix:
        return evaluate(family, damaged, (1, 0.5, 0.2), on_error="skip", ranks=Together(rank, 2, shared, barrier))

    with ThreadPoolExecutor(2) as pool:
        for matrix in pool.map(work, range(2)):
            np.testing.assert_array_equal(matrix.values, alone.values)
            assert matrix.to_json() == alone.to_json()
