import io

import pytest
import torch
from torch import nn

import prunnet
from prunnet.errors import CapacityError, FamilyError
from prunnet.network.capacity import kept_connections
from prunnet.network.family import ALIGN_BATCHES
from prunnet.storage.prun import DEFAULT_GRID, pack, prefix_bytes, unpack
from prunnet.storage.prun.numbers import stepped_layers

VALUES = ("float16", "int8")


def assert_half(found: torch.Tensor, expected: torch.Tensor) -> None:
    bound = expected.abs() * 2.0**-11 + expected.abs().max() * 2.0**-39
    assert ((found - expected).abs() <= bound).all()


def assert_close(found: prunnet.Subnetwork, net: prunnet.PrunableNetwork, values: str, corrected: bool = False) -> None:
    """The tolerance that docs/prun-format.md states, for every tensor."""
    expected = net.subnetwork(found.capacity).state_dict()
    for name, tensor in found.state_dict().items():
        if name.endswith("num_batches_tracked") or (corrected and "running_" in name):
            continue
        if name.removeprefix("backbone.") in net.scores:
            dense = net.get_parameter(name).detach().flatten(1)
            if name.removeprefix("backbone.") in stepped_layers({n: s.shape for n, s in net.scores.items()}, values):
                assert (tensor[expected[name] == 0] == 0).all()
                error = (tensor - expected[name]).flatten(1).abs()
                assert (error <= 0.501 / 127 * dense.abs().amax(1, keepdim=True)).all()
                continue
        assert_half(tensor, expected[name])


@torch.no_grad()
def cosine(first: nn.Module, second: nn.Module, images: torch.Tensor) -> float:
    return float((first(images) * second(images)).sum(1).mean())


@pytest.mark.parametrize("values", VALUES)
def test_every_capacity_of_the_grid_comes_back(tiny, pack_tiny, images, values) -> None:
    path = pack_tiny(values=values)
    for capacity in DEFAULT_GRID:
        found = unpack(path, capacity)
        assert_close(found, tiny, values)
        assert cosine(found, tiny.subnetwork(capacity), images) >= (0.99 if values == "int8" else 0.9999)
        assert (found.capacity, found.family_id, found.preprocessing) == (capacity, tiny.family_id, tiny.preprocessing)
        assert found.adapted and not found.training


def small_network() -> prunnet.PrunableNetwork:
    torch.manual_seed(0)
    backbone = prunnet.create_backbone("resnet18", in_chans=1, channels=(32, 32, 32, 32), layers=(1, 1, 1, 1))
    return prunnet.convert(backbone, 8, preprocessing=prunnet.Preprocessing((1, 32, 32)))


def test_a_loader_corrects_batch_norm_for_the_rounding_of_values(tmp_path, images) -> None:
    """On bright images channels vary little around large means, which makes rounding matter."""
    net = small_network()
    bright = images + 30
    prunnet.adapt_batchnorm(net, [bright], capacities=(0.5, 1))
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    plain = pack(net, tmp_path / "plain.prun", grid=(0.5, 1), values="int8")
    corrected = pack(net, tmp_path / "corrected.prun", grid=(0.5, 1), values="int8", loader=[bright.flip(3)])
    for capacity in (0.5, 1.0):
        expected = net.subnetwork(capacity)
        assert cosine(unpack(plain, capacity), expected, bright) < 0.98
        assert cosine(unpack(corrected, capacity), expected, bright) > 0.99
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_each_layer_keeps_exactly_its_connections_and_they_are_nested(tiny, packed) -> None:
    smaller = None
    for capacity in DEFAULT_GRID:
        backbone = unpack(io.BytesIO(packed), capacity).backbone
        kept = {name: backbone.get_parameter(name) != 0 for name in tiny.scores}
        for name, mask in kept.items():
            assert int(mask.sum()) == kept_connections(capacity, mask.numel())
            assert torch.equal(mask, tiny.masks(capacity)[name])
            assert smaller is None or not (smaller[name] & ~mask).any()
        smaller = kept


def test_a_prefix_is_a_file_and_an_upgrade_appends(packed, tmp_path) -> None:
    small = packed[: prefix_bytes(io.BytesIO(packed), 0.2)]
    path = tmp_path / "device.prun"
    path.write_bytes(small)
    at_20 = unpack(path)
    assert at_20.capacity == 0.2
    with pytest.raises(FamilyError, match=r"holds capacities up to 20 %; for 40 % append bytes \d+ to \d+"):
        unpack(path, 0.4)
    # the prefix on the device knows what is missing
    with path.open("ab") as file:
        file.write(packed[len(small) : prefix_bytes(path, 0.4)])
    assert unpack(path).capacity == 0.4
    for capacity in (0.2, 0.4):
        whole, grown = unpack(io.BytesIO(packed), capacity), unpack(path, capacity)
        assert all(torch.equal(tensor, whole.state_dict()[name]) for name, tensor in grown.state_dict().items())


def test_the_default_capacity_is_the_largest_held(packed, pack_tiny) -> None:
    assert unpack(io.BytesIO(packed)).capacity == 1.0
    assert unpack(pack_tiny(grid=(0.3, 0.1))).capacity == 0.3
    assert unpack(pack_tiny(grid=(0.3, 0.1)), 0.1 + 1e-12).capacity == 0.1


def test_packing_is_deterministic(packed, pack_tiny) -> None:
    assert pack_tiny().read_bytes() == packed


def test_an_unknown_capacity_names_the_grid(packed) -> None:
    with pytest.raises(CapacityError, match="no band that ends at 13 %; it has 5 %, 10 %, 15 %"):
        unpack(io.BytesIO(packed), 0.13)
    with pytest.raises(CapacityError, match=r"for 10 % write 0\.1"):
        unpack(io.BytesIO(packed), 10)


def test_capacities_without_statistics_are_refused_or_adapted(tmp_path, images) -> None:
    net = small_network()
    prunnet.adapt_batchnorm(net, [images], capacities=(0.2,))
    with pytest.raises(CapacityError, match="never adapted at 10 %, 40 %; pass loader="):
        pack(net, tmp_path / "a.prun", grid=(0.1, 0.2, 0.4, 1))
    assert not list(tmp_path.iterdir())
    pack(net, tmp_path / "a.prun", grid=(0.1, 0.2, 0.4, 1), loader=[images])
    assert list(net.statistics) == [0.2]
    net.adapt([images], (0.1, 0.4), align_batches=ALIGN_BATCHES)
    for capacity in (0.1, 0.2, 0.4):
        assert cosine(unpack(tmp_path / "a.prun", capacity), net.subnetwork(capacity), images) >= 0.9999


@pytest.mark.parametrize("grid", [(), (0.001, 0.2), (0.0, 0.2), 0.2])
def test_a_grid_that_cannot_be_is_refused(tiny, tmp_path, grid) -> None:
    with pytest.raises(CapacityError):
        pack(tiny, tmp_path / "a.prun", grid=grid)
    with pytest.raises(FamilyError, match="'float16' or 'int8'"):
        pack(tiny, tmp_path / "a.prun", values="float8")


class Own(nn.Module):
    """Not timm's: a weight used twice, a scalar, huge and tiny values."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Linear(8, 8)
        self.third = nn.Linear(8, 8)
        self.third.weight = self.second.weight
        self.scale = nn.Parameter(torch.tensor(1e-30))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.first(images).mean((2, 3))
        return self.third(torch.relu(self.second(x))) * self.scale


@pytest.mark.parametrize("values", VALUES)
def test_an_own_module_with_values_beyond_half_precision(tmp_path, values) -> None:
    torch.manual_seed(0)
    net = prunnet.convert(Own(), 4, preprocessing=prunnet.Preprocessing((3, 8, 8)))
    with torch.no_grad():
        net.backbone.first.weight.mul_(1e20)
        net.backbone.second.weight.mul_(1e-20)
    images = torch.randn(4, 3, 8, 8)
    path = pack(net, tmp_path / "own.prun", values=values, grid=(0.5, 1), loader=[images])
    prunnet.adapt_batchnorm(net, [images], capacities=(0.5,))
    with pytest.raises(FamilyError, match=r"Own was not made by prunnet.create_backbone; pass one"):
        unpack(path, 0.5)
    with pytest.raises(FamilyError, match=r"first.weight has shape \(8, 3, 3, 3\) in the file and None"):
        unpack(path, 0.5, backbone=prunnet.create_backbone("resnet18"))
    for capacity in (0.5, 1.0):
        found = unpack(path, capacity, backbone=Own())
        assert_close(found, net, values, corrected=True)
        assert found.backbone.third.weight is found.backbone.second.weight


def test_what_cannot_be_packed_is_named(tiny, tmp_path) -> None:
    net = prunnet.convert(Own(), 4, preprocessing=prunnet.Preprocessing((3, 8, 8)))
    net.backbone.register_buffer("table", torch.arange(3))
    with pytest.raises(FamilyError, match=r"backbone.table is int64\[3\]; a .prun file holds floating-point"):
        pack(net, tmp_path / "own.prun", grid=(1,))
    del net.backbone.table
    for values in VALUES:
        with torch.no_grad():
            net.backbone.first.weight[0] = torch.inf
        with pytest.raises(FamilyError, match=r"backbone.first.weight.* contains NaN or infinity"):
            pack(net, tmp_path / "own.prun", grid=(1,), values=values)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FamilyError, match="could not be written"):
        pack(tiny, tmp_path)


LEAST_COSINE = {"float16": 0.9999, "int8": 0.999}


def check_backbone(name: str, values: str, grid: tuple[float, ...], tmp_path) -> None:
    torch.manual_seed(0)
    small = None if "vit" in name else prunnet.Preprocessing((3, 64, 64))
    net = prunnet.convert(prunnet.create_backbone(name), preprocessing=small).eval()
    images = torch.randn(16, *net.preprocessing.input_size)
    prunnet.adapt_batchnorm(net, [images], capacities=grid)
    corrected = values == "int8"
    path = pack(net, tmp_path / "family.prun", values=values, grid=grid, loader=[images] if corrected else None)
    for capacity in grid:
        found = unpack(path, capacity)
        assert_close(found, net, values, corrected)
        if name != "mobilenetv2_100":  # untrained, it turns the smallest change into another embedding
            assert cosine(found, net.subnetwork(capacity), images) >= LEAST_COSINE[values]


def test_mobilenet_comes_back(tmp_path) -> None:
    check_backbone("mobilenetv2_100", "float16", (0.2, 1.0), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "resnext50_32x4d", "mobilenetv2_100", "vit_small_patch16_224"]
)
@pytest.mark.parametrize("values", VALUES)
def test_the_papers_backbones_come_back(name, values, tmp_path) -> None:
    check_backbone(name, values, DEFAULT_GRID, tmp_path)
