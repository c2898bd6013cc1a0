from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

import prunnet
from tests.networks import BACKBONES, HandWritten, fresh, make

settings.register_profile("untimed", deadline=None)  # a machine may be busy
settings.load_profile("untimed")


@pytest.fixture(params=BACKBONES)
def net(request: pytest.FixtureRequest) -> prunnet.PrunableNetwork:
    """A converted backbone in evaluation mode, made once; a test must leave it as it was."""
    return make(request.param).eval()


@pytest.fixture
def small_net() -> prunnet.PrunableNetwork:
    """A fresh hand-written network that a test may change."""
    return fresh("hand_written")


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def hand_written() -> HandWritten:
    torch.manual_seed(0)
    return HandWritten()
