import pytest
import torch
import torch.nn.functional as F
from tests.network.test_batchnorm import loader_for

import prunnet
from prunnet.data import shuffled_loader
from prunnet.errors import ImageError
from prunnet.network import batchnorm
from prunnet.network.aligning import NormShift
from prunnet.network.functional import embed_with


def cosine(net: prunnet.PrunableNetwork, capacity: float, images: torch.Tensor) -> float:
    with torch.no_grad():
        return float(F.cosine_similarity(net(images, capacity), net(images), dim=1).mean())


def test_scales_and_shifts_are_kept_as_statistics(small_net) -> None:
    loader = loader_for(small_net)
    small_net.eval().adapt(loader, (1.0, 0.5))
    shift = NormShift(small_net, small_net.statistics.get(0.5))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in shift.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    weights = small_net.effective_weights(0.5)
    there, folded = (
        embed_with(small_net.backbone, small_net.head, loader[0], weights=weights, statistics=statistics)
        for statistics in (shift.replaced(), shift.folded())
    )
    torch.testing.assert_close(folded, there, rtol=1e-4, atol=1e-4)
    assert all(tensor.min() >= 0 for name, tensor in shift.folded().items() if name.endswith("running_var"))


def test_aligned_members_lie_nearer_to_the_dense_network(small_net) -> None:
    loader = loader_for(small_net)
    small_net.eval().adapt(loader, (1.0, 0.8, 0.5))
    before = {capacity: cosine(small_net, capacity, torch.cat(loader)) for capacity in (0.8, 0.5)}
    small_net.adapt(6 * loader, (0.8, 0.5), align_batches=180)
    for capacity, value in before.items():
        assert cosine(small_net, capacity, torch.cat(loader)) > value + 0.1 * (1 - value)


def together(net: prunnet.PrunableNetwork, images: torch.Tensor, capacities: tuple[float, ...]) -> torch.Tensor:
    with torch.no_grad():
        return torch.stack([net(images, capacity) for capacity in capacities]).mean(dim=0)


def test_a_whole_family_is_turned_to_what_it_says_together(small_net) -> None:
    loader, everyone = loader_for(small_net), (1.0, 0.8, 0.5)
    images = torch.cat(loader)
    small_net.capacities = everyone[1:]
    small_net.eval().adapt(loader, (*everyone, 0.3))
    teacher = together(small_net, images, everyone)  # 30 % was not trained, so it does not teach

    def distances() -> list[float]:
        return [
            float(1 - F.cosine_similarity(together(small_net, images, (capacity,)), teacher, dim=1).mean())
            for capacity in everyone
        ]

    before = distances()
    small_net.adapt(6 * loader, (*everyone, 0.3), align_batches=180)
    assert all(now < 0.95 * then for now, then in zip(distances(), before, strict=True))


def test_a_dense_network_without_trained_members_learns_from_nobody(small_net) -> None:
    loader = loader_for(small_net)
    small_net.eval().adapt(loader, (1.0,))
    before = {name: tensor.clone() for name, tensor in batchnorm.buffers(batchnorm.layers(small_net)).items()}
    small_net.adapt(loader, (1.0, 0.5), align_batches=5)
    for name, tensor in batchnorm.buffers(batchnorm.layers(small_net)).items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)


def test_nothing_but_the_statistics_of_members_changes(small_net) -> None:
    loader = loader_for(small_net)
    small_net.train().adapt(loader, (1.0, 0.5))
    before = {name: tensor.clone() for name, tensor in small_net.state_dict().items()}
    small_net.adapt(loader, (0.5,), align_batches=3)
    for name, tensor in small_net.state_dict().items():
        if not name.startswith("statistics."):
            torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in small_net.parameters())
    assert small_net.training


def test_network_and_subnetwork_align_alike(small_net) -> None:
    loader = loader_for(small_net)
    small_net.eval().adapt(loader, (1.0,))
    alone = small_net.subnetwork(0.5)
    with torch.no_grad():  # whatever the caller is at
        prunnet.adapt_batchnorm(alone, loader, dense=small_net, align_batches=5)
    small_net.adapt(loader, (0.5,), align_batches=5)
    for name, tensor in batchnorm.buffers(batchnorm.layers(small_net.subnetwork(0.5))).items():
        if tensor.is_floating_point():
            torch.testing.assert_close(alone.get_buffer(name), tensor)


def test_images_that_cannot_be_read_again_are_refused(small_net) -> None:
    with pytest.raises(ImageError, match="read again"):
        small_net.adapt(iter(loader_for(small_net)), (0.5,), align_batches=5)


def test_a_loader_that_was_left_before_its_end_goes_on(small_net) -> None:
    images = prunnet.load_data("glyphs", classes=8, images_per_class=4, size=16).train
    loader = shuffled_loader(images, small_net.preprocessing, batch_size=len(images) // 2)
    small_net.adapt(loader, (0.5,), adapt_batches=2, align_batches=3)
    assert 0.5 in small_net.statistics
