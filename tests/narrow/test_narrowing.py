"""Networks of width √c: leading channels, whole groups and heads, and the two kinds of family made of them."""

import numpy as np
import pytest
import torch
from tests.networks import HandWritten, torchvision_vit
from torch import Tensor, nn

import prunnet
from prunnet.errors import CapacityError, FamilyError, ModuleError
from prunnet.narrow import Members, SlimmableNetwork
from prunnet.narrow.narrowing import NORMS, initialise, narrow
from prunnet.network import Subnetwork
from prunnet.storage import load as load_family
from prunnet.storage.members_folder import save_members

SMALL = prunnet.Preprocessing((3, 32, 32))
BACKBONES = {
    "resnet18": {"channels": [16, 32, 64, 128]},
    "resnet50": {"channels": [16, 32, 64, 128]},
    "resnext50_32x4d": {"channels": [16, 32, 64, 128], "cardinality": 16, "base_width": 32},
    "mobilenetv2_100": {},
    "vit_small_patch16_224": {"img_size": 32, "patch_size": 8, "embed_dim": 96, "depth": 2, "num_heads": 6},
}


def dense(name: str) -> Subnetwork:
    torch.manual_seed(0)
    backbone = prunnet.create_backbone(name, **BACKBONES[name])
    return prunnet.convert(backbone, 16, preprocessing=SMALL).subnetwork(1.0)


def images(count: int = 3) -> Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("name", BACKBONES)
def test_width_is_the_root_of_the_capacity(name: str) -> None:
    wide = dense(name)
    for capacity in (0.8, 0.4, 0.2, 0.1):
        member, _ = narrow(wide, capacity)
        share = parameters(member.backbone) / parameters(wide.backbone)
        assert share == pytest.approx(capacity, rel=0.2, abs=0.1)  # small layers round coarsely
        assert member(images()).shape == (3, 16)
    assert parameters(narrow(wide, 1.0)[0]) == parameters(wide)


@pytest.mark.parametrize("name", BACKBONES)
def test_every_tensor_is_a_slice_of_the_wide_one(name: str) -> None:
    wide = dense(name)
    member, slices = narrow(wide, 0.3)
    for key, tensor in member.state_dict().items():
        whole = wide.state_dict()[key]
        assert torch.equal(tensor, whole[slices[key]] if whole.ndim else whole)
        if ".qkv." not in key and ".attn.proj." not in key:  # heads keep their leading channels, not the leading heads
            assert torch.equal(tensor, whole[tuple(slice(size) for size in tensor.shape)])


def test_every_head_keeps_its_leading_channels() -> None:
    wide = dense("vit_small_patch16_224")
    member, _ = narrow(wide, 0.25)
    whole = wide.backbone.blocks[0].attn.qkv.weight.view(3, 6, 16, 96)
    kept = member.backbone.blocks[0].attn.qkv.weight.view(3, 6, 8, 48)
    assert torch.equal(kept, whole[:, :, :8, :48])
    assert member.backbone.blocks[0].attn.scale == 8**-0.5


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2_100", "vit_small_patch16_224"])
def test_initialising_fits_the_scale_to_the_width(name: str) -> None:
    member, _ = narrow(dense(name), 0.2)
    before = {key: tensor.clone() for key, tensor in member.state_dict().items()}
    initialise(member.backbone)
    changed = [
        key for key, tensor in member.backbone.named_parameters() if not torch.equal(tensor, before[f"backbone.{key}"])
    ]
    assert len(changed) >= sum(isinstance(layer, nn.Conv2d | nn.Linear) for layer in member.backbone.modules())
    assert member.eval()(images()).isfinite().all()


def test_what_cannot_be_narrower_says_so() -> None:
    for module in (HandWritten(), torchvision_vit()):
        wide = prunnet.convert(module, 8, preprocessing=SMALL).subnetwork(1.0)
        with pytest.raises(ModuleError, match="cannot be made narrower"):
            narrow(wide, 0.3)


@pytest.mark.parametrize("name", BACKBONES)
@torch.no_grad()
def test_a_slimmable_network_borrows_all_but_its_norms(name: str) -> None:
    network = SlimmableNetwork(dense(name), (0.5, 0.2)).eval()
    norms = {n for n, layer in network.dense.named_modules() if isinstance(layer, NORMS)}
    assert {n.rpartition(".")[0] for n in network.own(0.2)} == norms
    assert {n.rpartition(".")[0] for n in network.shared}.isdisjoint(norms)
    taken = network.subnetwork(0.2)
    assert torch.allclose(network(images(), 0.2), taken(images()), atol=1e-6)
    for weight in network.shared.values():
        weight.mul_(1.5)
    changed = network.subnetwork(0.2)
    assert all(torch.equal(changed.get_parameter(n), 1.5 * taken.get_parameter(n)) for n in network.shared)
    with pytest.raises(CapacityError, match="widths of 100 %, 50 %, 20 %; found 30 %"):
        network(images(), 0.3)


@pytest.mark.parametrize("name", BACKBONES)
@torch.no_grad()
def test_members_come_back_from_their_folder(tmp_path, name: str) -> None:
    wide = dense(name)
    members = Members([wide, narrow(wide, 0.5)[0], narrow(wide, 0.2)[0]])
    assert members.capacities == (0.5, 0.2)
    loaded = load_family(save_members(members, tmp_path / "members"))
    assert loaded.family_id == members.family_id and loaded.capacities == members.capacities
    for capacity in (1.0, 0.5, 0.2):
        assert torch.equal(loaded.subnetwork(capacity)(images()), members.subnetwork(capacity)(images()))
    with pytest.raises(CapacityError, match="has members at 100 %, 50 %, 20 %; found 40 %"):
        loaded.subnetwork(0.4)


def test_members_extend_a_family_and_keep_its_id() -> None:
    net = prunnet.convert(prunnet.create_backbone("resnet18", **BACKBONES["resnet18"]), 16, preprocessing=SMALL)
    net.capacities = (0.5,)
    family = Members([narrow(net.subnetwork(1.0), 0.1)[0]], base=net)
    assert family.capacities == (0.5, 0.1) and family.family_id == net.family_id
    assert parameters(family.subnetwork(0.1)) < parameters(family.subnetwork(0.5)) == parameters(net.subnetwork(0.5))
    assert parameters(family) == parameters(family.by_capacity[0.1])  # the base is neither trained nor saved


def test_members_that_extend_members_have_those_of_all() -> None:
    wide = dense("resnet18")
    first = Members([narrow(wide, 0.5)[0]], base=Members([wide]))
    second = Members([narrow(wide, 0.1)[0]], base=first)
    assert first.available((1.0, 0.5, 0.2)) == (1.0, 0.5)
    assert second.available((1.0, 0.5, 0.2, 0.1)) == (1.0, 0.5, 0.1)


def test_networks_that_share_no_space_are_told_apart(tmp_path) -> None:
    wide = dense("resnet18")
    apart = Members([wide, narrow(wide, 0.2)[0]], compatible=False)
    loaded = load_family(save_members(apart, tmp_path / "members"))
    assert isinstance(loaded, Members) and not loaded.compatible and loaded.family_id == apart.family_id
    pictures = [np.zeros((32, 32, 3), dtype=np.uint8)]
    large, small, again = (loaded.subnetwork(capacity).encode(pictures) for capacity in (1.0, 0.2, 1.0))
    assert large.similarity(again).shape == (1, 1)
    with pytest.raises(FamilyError, match="cannot be compared"):
        small.similarity(large)
    beside = Members([narrow(wide, 0.1)[0]], base=loaded)  # aligned with the dense one
    beside.subnetwork(0.1).encode(pictures).similarity(large)


@pytest.mark.parametrize("zero_init_last", [True, False])
def test_a_narrower_network_starts_as_the_wide_one_was_asked_to(zero_init_last: bool) -> None:
    backbone = prunnet.create_backbone("resnet18", zero_init_last=zero_init_last, **BACKBONES["resnet18"])
    member, _ = narrow(prunnet.convert(backbone, 16, preprocessing=SMALL).subnetwork(1.0), 0.2)
    initialise(member.backbone)
    last = member.backbone.get_parameter("layer1.0.bn2.weight")
    assert torch.equal(last, torch.full_like(last, 0.0 if zero_init_last else 1.0))


def test_damaged_members_give_one_clear_line(tmp_path) -> None:
    wide = dense("resnet18")
    folder = save_members(Members([wide]), tmp_path / "members")
    other = save_members(Members([dense("resnet18")]), tmp_path / "other")
    for file in ("config.json", "model.safetensors"):
        (folder / "1" / file).write_bytes((other / "1" / file).read_bytes())
    with pytest.raises(FamilyError, match="mixes families"):
        load_family(folder)
    (folder / "config.json").write_text('{"format": "prunnet-members", "version": 1}')
    with pytest.raises(FamilyError, match=r"config\.json is damaged: family_id: Field required"):
        load_family(folder)
    with pytest.raises(FamilyError, match=r"does not exist"):
        load_family(tmp_path / "nowhere")
