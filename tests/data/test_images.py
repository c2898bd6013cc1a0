import numpy as np
import pytest
from PIL import Image

from prunnet.data import ImageSet, Protocol, RetrievalData
from prunnet.data.images import FilePixels, clip_box
from prunnet.errors import DataError, UnreadableImageError


def arrays(n=6, classes=3):
    pixels = np.random.default_rng(0).integers(0, 256, (n, 5, 7), dtype=np.uint8)
    return ImageSet.from_arrays(pixels, np.arange(n) % classes)


def test_arrays_come_back_as_they_were():
    images = arrays()
    assert len(images) == 6 and images.classes == 3 and images.labels.dtype == np.int64
    assert images.image(2).mode == "L"
    np.testing.assert_array_equal(np.asarray(images.image(2)), images.pixels.arrays[2])


def test_files_are_cropped_to_their_box_and_converted(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (10, 12), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    images = ImageSet(FilePixels([tmp_path / "a.png"] * 2, [(2, 3, 6, 9), None]), [0, 0], ["a"], ["a", "b"])
    assert images.image(0).mode == "RGB"
    np.testing.assert_array_equal(np.asarray(images.image(0))[..., 0], pixels[3:9, 2:6])
    assert images.image(1).size == (12, 10)


def test_take_keeps_labels_ids_boxes_and_cameras_together(tmp_path, draw):
    paths = [draw(tmp_path / f"{i}.png") for i in range(4)]
    boxes = [(0, 0, i + 1, 5) for i in range(4)]
    images = ImageSet(FilePixels(paths, boxes), [0, 1, 0, 1], ["a", "b"], list("wxyz"), [5, 6, 7, 8])
    some = images.take([3, 1])
    assert some.labels.tolist() == [1, 1] and some.ids == ["z", "x"] and some.cameras.tolist() == [8, 6]
    assert some.image(0).size == (4, 5) and some.label_names == ["a", "b"]


@pytest.mark.parametrize("content", [b"", b"not an image", None])
def test_unreadable_files_are_named(tmp_path, content):
    path = tmp_path / "bad.jpg"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableImageError, match=r"bad\.jpg") as caught:
        ImageSet(FilePixels([path]), [0], ["a"], ["bad"]).image(0)
    assert "\n" not in str(caught.value)


def test_truncated_files_are_unreadable(tmp_path, draw):
    path = draw(tmp_path / "cut.jpg", (64, 64))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(UnreadableImageError, match=r"cut\.jpg"):
        ImageSet(FilePixels([path]), [0], ["a"], ["cut"]).image(0)


def test_cache_holds_pixels_when_the_files_are_gone(tmp_path, draw):
    paths = [draw(tmp_path / f"{i}.png") for i in range(3)]
    images = ImageSet(FilePixels(paths), [0, 1, 2], list("abc"), list("abc"))
    before = [np.asarray(images.image(i)) for i in range(3)]
    cached = images.cached(limit_bytes=2 * before[0].nbytes)
    for path in paths:
        path.unlink()
    for i in (0, 1):
        np.testing.assert_array_equal(np.asarray(cached.image(i)), before[i])
    with pytest.raises(UnreadableImageError):
        cached.image(2)  # over the limit, so it is read from its file


def test_cache_leaves_unreadable_images_to_whoever_asks(tmp_path, draw):
    (tmp_path / "bad.png").write_bytes(b"x")
    paths = [tmp_path / "bad.png", draw(tmp_path / "good.png")]
    cached = ImageSet(FilePixels(paths), [0, 0], ["a"], ["bad", "good"]).cached()
    assert cached.image(1).size == (12, 10)
    with pytest.raises(UnreadableImageError):
        cached.image(0)


def test_boxes_are_clipped_to_the_image():
    assert clip_box((-3, 2, 99, 5), (10, 8)) == (0, 2, 10, 5)
    with pytest.raises(ValueError, match="outside"):
        clip_box((20, 0, 30, 5), (10, 8))


def test_unequal_numbers_and_wild_labels_are_refused():
    pixels = np.zeros((2, 4, 4), np.uint8)
    with pytest.raises(DataError, match="differ in number"):
        ImageSet.from_arrays(pixels, [0, 0, 0], ["a"])
    with pytest.raises(DataError, match="labels must lie"):
        ImageSet.from_arrays(pixels, [0, 1], ["a"])
    with pytest.raises(DataError, match="uint8"):
        ImageSet.from_arrays(pixels.astype(float), [0, 0], ["a"])


def test_retrieval_data_refuses_what_cannot_be_scored():
    images = arrays()
    with pytest.raises(DataError, match="share label_names"):
        RetrievalData("x", None, images, arrays(classes=2), Protocol())
    with pytest.raises(DataError, match="camera"):
        RetrievalData("x", None, images, images, Protocol(camera_junk=True))
    with pytest.raises(DataError, match="the training set is empty"):
        RetrievalData("x", images.take([]), images, images, Protocol())
    with pytest.raises(DataError, match="ground truths"):
        RetrievalData("x", None, images, images, Protocol(ground_truth=[]))
    with pytest.raises(DataError, match="unknown metric"):
        Protocol(metric="accuracy")
