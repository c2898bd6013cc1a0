from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prunnet.data import ClassBalancedSampler, ShuffledSampler
from prunnet.errors import DataError


def shuffled(**options):
    return ShuffledSampler(options.pop("length", 50), options.pop("batch_size", 8), **options)


def balanced(**options):
    return ClassBalancedSampler(np.repeat(np.arange(10), 5), 4, 2, **options)


both = pytest.mark.parametrize("make", [shuffled, balanced])


@given(length=st.integers(1, 200), batch=st.integers(1, 40), seed=st.integers(0, 9), drop_last=st.booleans())
def test_an_epoch_deals_every_image_at_most_once(length, batch, seed, drop_last):
    if drop_last and batch > length:
        with pytest.raises(DataError, match="do not fill one batch"):
            ShuffledSampler(length, batch, seed)
        return
    sampler = ShuffledSampler(length, batch, seed, drop_last=drop_last)
    batches = list(sampler)
    dealt = [index for indices in batches for index in indices]
    assert len(batches) == len(ShuffledSampler(length, batch, seed, drop_last=drop_last))
    assert len(set(dealt)) == len(dealt) == (length // batch * batch if drop_last else length)
    assert all(len(indices) == batch for indices in batches[:-1])


@given(
    sizes=st.lists(st.integers(1, 9), min_size=3, max_size=12),
    p=st.integers(1, 3),
    k=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_balanced_batches_have_p_classes_of_k_images(sizes, p, k, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    sampler = ClassBalancedSampler(labels, p, k, seed)
    batches = list(sampler)
    assert len(batches) == max(1, len(labels) // (p * k))
    for batch in batches:
        classes = Counter(labels[batch].tolist())
        assert len(classes) == p and set(classes.values()) == {k}
        for label in classes:  # no image twice unless the class is smaller than K
            drawn = {index for index in batch if labels[index] == label}
            assert len(drawn) == min(k, sizes[label])


def test_images_of_a_class_take_turns():
    labels = np.repeat([0, 1], 6)
    dealt = [index for batch in ClassBalancedSampler(labels, 2, 2, seed=3) for index in batch]
    assert sorted(dealt) == list(range(12))


def test_unlabelled_images_are_not_dealt():
    sampler = ClassBalancedSampler([-1, 0, 0, -1, 1, 1], 2, 2)
    assert {index for batch in sampler for index in batch} == {1, 2, 4, 5}


@both
def test_batches_depend_on_seed_and_epoch_alone(make):
    def epoch(seed, number):
        sampler = make(seed=seed)
        for _ in range(number):
            list(sampler)
        return list(sampler)

    assert epoch(1, 2) == epoch(1, 2)
    assert epoch(1, 2) != epoch(1, 3)
    assert epoch(1, 2) != epoch(2, 2)


@both
@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_share_the_global_batch(make, world_size):
    whole = list(make(seed=5).seeded())
    ranks = [list(make(seed=5, rank=rank, world_size=world_size).seeded()) for rank in range(world_size)]
    joined = [list(chain(*parts)) for parts in zip(*ranks, strict=True)]
    assert joined == whole  # indices and the seeds of their augmentation


@both
@pytest.mark.parametrize("consumed", [0, 1, 3])
def test_a_resumed_sampler_deals_exactly_the_rest(make, consumed):
    first = make(seed=7)
    for _ in range(4):
        list(first)
    batches = iter(first)
    for _ in range(consumed):
        next(batches)
    resumed = make(seed=7)
    resumed.load_state_dict(first.state_dict())
    assert list(resumed) == list(batches)
    assert resumed.epoch == 5 and resumed.position == 0


@both
def test_running_on_is_the_next_epoch(make):
    sampler, other = make(), make()
    first = list(sampler)
    assert sampler.state_dict() | {"epoch": 0} == other.state_dict() and sampler.epoch == 1
    other.load_state_dict(sampler.state_dict())
    assert list(other) == list(sampler) != first


def test_what_cannot_be_dealt_is_refused():
    with pytest.raises(DataError, match="evenly to 3 ranks"):
        ShuffledSampler(50, 8, world_size=3)
    with pytest.raises(DataError, match="rank 2 is outside"):
        ShuffledSampler(50, 8, rank=2, world_size=2)
    with pytest.raises(DataError, match="drop_last"):
        ShuffledSampler(50, 8, world_size=2, drop_last=False)
    with pytest.raises(DataError, match="there are only 2"):
        ClassBalancedSampler([0, 1], 3, 1)
    with pytest.raises(DataError, match="seed 1"):
        shuffled(seed=0).load_state_dict(shuffled(seed=1).state_dict())
