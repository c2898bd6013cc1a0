import pytest
import torch
from tests.networks import HandWritten
from tests.runtime.test_running import Unusual

import prunnet
from prunnet.deploy import packed
from prunnet.deploy.latency import runner
from prunnet.errors import ExportError

SIZE = (3, 32, 32)


@pytest.fixture(scope="module")
def family() -> prunnet.PrunableNetwork:
    torch.manual_seed(0)
    net = prunnet.convert(HandWritten(), 8, preprocessing=prunnet.Preprocessing(SIZE))
    torch.nn.init.normal_(net.head.norm.bias)  # what is left of an image at 20 % is less than the rounding of halves
    prunnet.adapt_batchnorm(net, [torch.randn(8, *SIZE)], capacities=(0.5, 0.2))
    return net.eval()


def test_a_subnetwork_runs_as_in_torch(family) -> None:
    images = torch.randn(2, *SIZE)
    for capacity in (1.0, 0.2):
        subnetwork = family.subnetwork(capacity)
        found = runner(subnetwork, "prunnet")(images)
        assert (found * subnetwork(images)).sum(1).min() > 0.9999  # values are halves


def test_it_is_measured_like_the_others(family) -> None:
    timings = prunnet.bench(family, (1.0, 0.2), ("prunnet",), rounds=1, batch_size=1)
    assert [(timing.runtime, timing.capacity) for timing in timings] == [("prunnet", 1.0), ("prunnet", 0.2)]


def test_a_backbone_that_it_lacks_an_operation_for_is_left_out(monkeypatch) -> None:
    net = prunnet.convert(Unusual(), 8, preprocessing=prunnet.Preprocessing(SIZE))
    monkeypatch.setattr("prunnet.deploy.timings.RUNTIMES", ("torch", "prunnet"))
    with pytest.warns(UserWarning, match=r"left out: the runtime has no operation cumsum"):
        timings = prunnet.bench(net, (1.0,), rounds=1, batch_size=1)
    assert {timing.runtime for timing in timings} == {"torch"}
    with pytest.raises(ExportError, match="no operation cumsum"):
        packed.runner(net.subnetwork(1.0))
