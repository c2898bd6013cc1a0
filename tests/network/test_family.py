"""What a prunable network keeps for its subnetworks, and what it answers as a family."""

import copy
import io

import pytest
import torch
from tests.networks import fresh, images_for

import prunnet
from prunnet.errors import CapacityError
from prunnet.network.family import check_available


@pytest.fixture
def adapted() -> prunnet.PrunableNetwork:
    net = fresh("hand_written")
    prunnet.adapt_batchnorm(net, [images_for(net, 16)], capacities=(0.5, 0.2))
    return net.eval()


def test_a_state_dict_carries_the_adapted_statistics(adapted: prunnet.PrunableNetwork) -> None:
    stored = io.BytesIO()
    torch.save(adapted.state_dict(), stored)
    stored.seek(0)
    other = fresh("hand_written").eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1)
    other.load_state_dict(torch.load(stored))
    assert set(other.statistics) == {0.5, 0.2}
    images = images_for(adapted)
    with torch.no_grad():
        for capacity in (1.0, 0.5, 0.2):
            assert torch.equal(other(images, capacity), adapted(images, capacity))


def test_loading_a_state_dict_forgets_other_statistics(adapted: prunnet.PrunableNetwork) -> None:
    plain = fresh("hand_written")
    adapted.load_state_dict(plain.state_dict())
    assert not len(adapted.statistics)


def test_statistics_move_with_the_network(adapted: prunnet.PrunableNetwork) -> None:
    assert all(t.dtype == torch.float64 for t in copy.deepcopy(adapted).double().statistics.tensors().values())


def test_scores_are_named_like_the_weights(net: prunnet.PrunableNetwork) -> None:
    names = [name.removeprefix("scores.") for name in net.state_dict() if name.startswith("scores.")]
    assert names == list(net.scores) and all(net.backbone.get_parameter(name) is not None for name in names)


def test_parts_named_like_the_methods_of_a_mapping_have_scores() -> None:
    class Awkward(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keys, self.values, self.items = (torch.nn.Linear(3, 3) for _ in range(3))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.items(self.values(self.keys(images.mean((2, 3)))))

    net = prunnet.convert(Awkward(), 4, preprocessing=prunnet.Preprocessing((3, 8, 8)))
    assert list(net.scores) == ["keys.weight", "values.weight", "items.weight"]
    assert net.scores["values.weight"].shape == (3, 3)
    net.load_state_dict(copy.deepcopy(net).state_dict())


def test_encode_copies_no_network_and_equals_the_subnetwork(adapted: prunnet.PrunableNetwork, monkeypatch) -> None:
    images = images_for(adapted, 5)
    expected = {capacity: adapted.subnetwork(capacity).encode(images) for capacity in (1.0, 0.5, 0.2)}
    monkeypatch.setattr(copy, "deepcopy", lambda *_: pytest.fail("encode copied something"))
    adapted.train()
    for capacity, embeddings in expected.items():
        made = adapted.encode(images, capacity)
        assert made.capacity == capacity and made.family_id == adapted.family_id
        torch.testing.assert_close(made.vectors, embeddings.vectors)
    assert adapted.training and adapted.encode(images).capacity == 1.0


def test_a_capacity_that_is_not_there_is_named(adapted: prunnet.PrunableNetwork) -> None:
    small = adapted.subnetwork(0.2)
    assert check_available(adapted, (0.2, 1)) == (1.0, 0.2) and check_available(small, (0.2,)) == (0.2,)
    with pytest.raises(CapacityError, match="is one subnetwork, with capacities 20 %; found 50 %"):
        check_available(small, (0.5, 0.2))


def test_scores_at_the_magnitude_of_weights_keep_the_largest_weights(hand_written) -> None:
    size = prunnet.Preprocessing((3, 32, 32))
    with torch.no_grad():
        hand_written.grouped.weight.zero_()
    net = prunnet.convert(hand_written, 16, preprocessing=size, score_start="magnitude")
    torch.manual_seed(0)
    usual = prunnet.convert(copy.deepcopy(hand_written), 16, preprocessing=size)
    masks = net.masks(0.3)
    for name, parameter in net.weights.items():
        weight, score = parameter.detach(), net.scores[name].detach()
        if name == "grouped.weight":
            assert score.abs().min() > 0  # a layer of zeros has random scores
            continue
        assert weight.abs()[masks[name]].min() >= weight.abs()[~masks[name]].max()
        expected = usual.scores[name].detach().square().mean().sqrt()
        assert score.square().mean().sqrt().item() == pytest.approx(expected.item(), rel=0.25)
