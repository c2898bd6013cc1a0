import pickle
import random
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from prunnet.data import (
    ClassBalancedSampler,
    ImageDataset,
    ImageSet,
    ShuffledSampler,
    collate,
    make_loader,
    read_ahead,
    train_transform,
)
from prunnet.data.images import FilePixels
from prunnet.errors import DataError, ImageError, UnreadableImageError
from prunnet.network import Preprocessing


def noisy(image):
    """A transform that draws from both generators timm draws from."""
    return torch.as_tensor(np.array(image), dtype=torch.float32) + torch.rand(1) + random.random()


def plain(image):
    return torch.as_tensor(np.array(image), dtype=torch.float32)


@pytest.fixture
def images():
    pixels = np.random.default_rng(0).integers(0, 256, (24, 4, 4), dtype=np.uint8)
    return ImageSet.from_arrays(pixels, np.arange(24) % 6)


@pytest.fixture
def damaged(tmp_path, draw):
    paths = [draw(tmp_path / f"{i}.png") for i in range(5)]
    paths[3].write_bytes(b"gone")
    return ImageSet(FilePixels(paths), [0, 1, 2, 3, 4], list("abcde"), [path.name for path in paths])


def test_without_a_sampler_images_come_in_order(images):
    batches = list(make_loader(images, plain, batch_size=10))
    assert [len(batch.labels) for batch in batches] == [10, 10, 4]
    assert torch.cat([batch.indices for batch in batches]).tolist() == list(range(24))
    torch.testing.assert_close(batches[0].images[3], plain(images.image(3)))
    assert batches[0].labels.tolist() == images.labels[:10].tolist()


@pytest.mark.parametrize("workers", [0, 1])
def test_reading_ahead_changes_nothing_else(images, damaged, workers):
    expected = make_loader(images, plain, batch_size=5)
    found = list(read_ahead(make_loader(images, plain, batch_size=5, workers=workers)))
    assert len(found) == len(expected) == 5
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours.images, theirs.images) and torch.equal(ours.indices, theirs.indices)
    with pytest.raises(UnreadableImageError, match=r"3\.png"):
        list(read_ahead(make_loader(damaged, plain, 1, workers=workers)))
    stopped = read_ahead(make_loader(damaged, plain, 1, workers=workers))
    next(stopped)
    stopped.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("reading")]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_image_is_named(damaged, workers):
    with pytest.raises(UnreadableImageError, match=r"^\S*3\.png: cannot be read") as caught:
        list(make_loader(damaged, plain, 2, workers=workers))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_skipped_images_are_reported_with_their_batch(damaged, workers):
    batches = list(make_loader(damaged, plain, 2, workers=workers, on_error="skip"))
    assert [batch.indices.tolist() for batch in batches] == [[0, 1], [2], [4]]
    assert [len(batch.unreadable) for batch in batches] == [0, 1, 0]
    assert "3.png" in batches[1].unreadable[0]


def test_a_batch_of_nothing_has_zero_images(damaged):
    batch = collate([ImageDataset(damaged, plain, on_error="skip")[3]])
    assert len(batch.images) == len(batch.labels) == len(batch.indices) == 0 and len(batch.unreadable) == 1


def test_on_error_has_two_words(images):
    with pytest.raises(DataError, match="'raise' or 'skip'"):
        ImageDataset(images, plain, on_error="ignore")


def pixels_of(batches):
    return [(batch.indices.tolist(), batch.images) for batch in batches]


def assert_same(some, others):
    assert len(some) == len(others)
    for (indices, pixels), (other_indices, other_pixels) in zip(some, others, strict=True):
        assert indices == other_indices
        assert torch.equal(pixels, other_pixels)


def test_augmentation_depends_on_neither_workers_nor_global_state(images):
    def epoch(workers):
        return pixels_of(make_loader(images, noisy, sampler=ShuffledSampler(24, 6, seed=1), workers=workers))

    torch.manual_seed(0)
    reference = epoch(0)
    torch.manual_seed(99)
    random.seed(99)
    assert_same(epoch(0), reference)
    assert_same(epoch(2), reference)


def test_loading_leaves_the_global_generators_alone(images):
    torch.manual_seed(5)
    random.seed(5)
    expected = torch.rand(3), random.random()
    torch.manual_seed(5)
    random.seed(5)
    dataset = ImageDataset(images, noisy)
    dataset[0, 17]
    assert torch.equal(torch.rand(3), expected[0]) and random.random() == expected[1]


def test_two_ranks_see_together_what_one_sees(images):
    whole = pixels_of(make_loader(images, noisy, sampler=ShuffledSampler(24, 6, seed=1)))
    halves = [
        pixels_of(make_loader(images, noisy, sampler=ShuffledSampler(24, 6, seed=1, rank=rank, world_size=2)))
        for rank in (0, 1)
    ]
    joined = [(a + b, torch.cat([x, y])) for (a, x), (b, y) in zip(*halves, strict=True)]
    assert_same(joined, whole)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_loader_continues_with_the_same_pixels(images, workers):
    """Workers draw ahead; the state has to tell what was handed out, not what was drawn."""

    def loader():
        sampler = ClassBalancedSampler(images.labels, 2, 2, seed=3)
        return sampler, make_loader(images, noisy, sampler=sampler, workers=workers)

    sampler, first = loader()
    batches = iter(first)
    seen = [next(batches) for _ in range(2)]
    state = sampler.state_dict()
    assert state["position"] == 2
    rest = pixels_of(batches)
    assert len(seen) + len(rest) == len(sampler)
    assert sampler.epoch == 1 and sampler.position == 0

    resumed_sampler, resumed = loader()
    resumed_sampler.load_state_dict(state)
    assert_same(pixels_of(resumed), rest)


COLOUR, GREY = Preprocessing((3, 16, 16)), Preprocessing((1, 16, 16), (0.5,), (0.25,))


@pytest.mark.parametrize("config", [COLOUR, GREY])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_any_picture_becomes_what_the_network_takes(config, mode):
    tensor = train_transform(config)(Image.new(mode, (40, 30)))
    assert tensor.shape == config.input_size and tensor.dtype == torch.float32


def test_flip_and_crop_can_be_turned_off():
    image = Image.linear_gradient("L").rotate(90).resize((16, 16))
    still = train_transform(GREY, scale=(1.0, 1.0), ratio=(1.0, 1.0), hflip=0.0)
    torch.testing.assert_close(still(image), GREY.transform()(image))
    mirrored = train_transform(GREY, scale=(1.0, 1.0), ratio=(1.0, 1.0), hflip=1.0)
    torch.testing.assert_close(mirrored(image), GREY.transform()(image).flip(-1))


def test_erasing_and_jitter_change_pixels():
    image = Image.new("RGB", (16, 16), (200, 100, 50))
    fixed = {"scale": (1.0, 1.0), "ratio": (1.0, 1.0), "hflip": 0.0}
    plain = train_transform(COLOUR, **fixed)(image)
    assert not torch.equal(train_transform(COLOUR, **fixed, random_erasing=1.0)(image), plain)
    assert not torch.equal(train_transform(COLOUR, **fixed, color_jitter=0.4)(image), plain)


def test_transforms_travel_to_worker_processes():
    assert pickle.loads(pickle.dumps(train_transform(COLOUR)))(Image.new("L", (9, 9))).shape == (3, 16, 16)


def test_other_channel_counts_are_refused():
    with pytest.raises(ImageError, match="1 or 3 channels, the network expects 4"):
        train_transform(Preprocessing((4, 8, 8)))
