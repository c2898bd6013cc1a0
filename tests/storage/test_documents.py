import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.coupled import make_network, random_images

import prunnet
from prunnet.errors import FamilyError
from prunnet.narrow import Members
from prunnet.narrow.narrowing import narrow
from prunnet.storage.documents import FamilyDocument, MembersDocument, SubnetworkDocument, described, parse


def as_version_1(folder: Path, **differently: Any) -> None:
    """What the folder would be had it been written before there were checksums."""
    for file in folder.rglob("config.json"):
        config = {**json.loads(file.read_text()), "version": 1, "remark": "unknown to the newest"}
        config.pop("sha256", None)
        if file.parent == folder:
            config |= differently
        file.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))
    for file in folder.rglob("model.safetensors"):
        save_file({name: tensor.clone() for name, tensor in load_file(file).items()}, file)


@pytest.mark.parametrize("selection", [prunnet.Connections, prunnet.Filters])
@torch.no_grad()
def test_a_family_of_version_1_is_read_as_it_was(tmp_path, selection) -> None:
    net = make_network("resnet18", selection())
    folder = prunnet.save(net, tmp_path / "family")
    as_version_1(folder, selection=..., structured=selection is prunnet.Filters)
    loaded = prunnet.load(folder)
    assert type(loaded.selection) is selection
    assert torch.equal(loaded(random_images(2)), net(random_images(2)))


@torch.no_grad()
def test_members_and_subnetworks_of_version_1_are_read_as_they_were(tmp_path) -> None:
    dense = make_network("resnet18").subnetwork(1.0)
    folder = prunnet.save(Members([dense, narrow(dense, 0.5)[0]]), tmp_path / "members")
    as_version_1(folder, compatible=..., base=...)
    loaded = prunnet.load(folder)
    assert isinstance(loaded, Members) and loaded.compatible and loaded.base is None
    assert torch.equal(loaded.subnetwork(1.0)(random_images(2)), dense(random_images(2)))


FAMILY = {
    "family_id": "0123",
    "backbone": {"name": "resnet18", "options": {"channels": [8, 8, 16, 16]}},
    "backbone_class": "ResNet",
    "embedding_dim": 8,
    "prunable": ["conv1.weight"],
    "ranking": "magnitude",
    "selection": "connections",
    "sensitivities": None,
    "preprocessing": {
        **{"input_size": [1, 16, 16], "mean": [0.5], "std": [0.5]},
        **{"interpolation": "bilinear", "crop_pct": 1.0},
    },
    "capacities": [0.5, 0.2],
    "adapted": [],
}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"format": "prunnet-members"}, "format"),
        ({"version": 1}, "version"),
        ({"version": True}, "version"),
        ({"family_id": "two\nlines"}, "family_id"),
        ({"family_id": ""}, "family_id"),
        ({"backbone": {"name": "resnet18"}}, "backbone.options"),
        ({"backbone": {"name": "hf_hub:a/b", "options": {}}}, "backbone.name"),
        ({"backbone": {"name": "resnet18", "options": {"depth": 10**7}}}, "backbone.options"),
        ({"backbone": {"name": "resnet18", "options": {"deep": [[{"er": float("nan")}]]}}}, "backbone.options"),
        ({"backbone": {"name": "resnet18", "options": {}, "width": 0}}, "backbone.width"),
        ({"embedding_dim": 0}, "embedding_dim"),
        ({"embedding_dim": 2**31}, "embedding_dim"),
        ({"embedding_dim": 8.0}, "embedding_dim"),
        ({"prunable": []}, "prunable"),
        ({"prunable": "conv1.weight"}, "prunable"),
        ({"ranking": "random"}, "ranking"),
        ({"selection": "maps"}, "selection"),
        ({"capacities": [0.0]}, "capacities.0"),
        ({"capacities": [float("inf")]}, "capacities.0"),
        ({"preprocessing": {**FAMILY["preprocessing"], "mean": [0.5, 0.5]}}, "preprocessing"),
        ({"preprocessing": {**FAMILY["preprocessing"], "crop_pct": 0}}, "preprocessing.crop_pct"),
        ({"preprocessing": {**FAMILY["preprocessing"], "mean": [float("nan")]}}, "preprocessing.mean.0"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(change: dict[str, Any], where: str) -> None:
    described(FamilyDocument, **FAMILY)
    with pytest.raises(FamilyError, match=f"^it is damaged: {where}: ") as caught:
        parse(FamilyDocument, {**FAMILY, **change}, "it is damaged")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [FamilyDocument, MembersDocument, SubnetworkDocument])
@pytest.mark.parametrize("content", [b"", b"[]", b"3", b"\xff", b"{", b'{"a": ' * 10_000, b"[" * 100_000])
def test_what_is_no_document_is_refused(kind, content: bytes) -> None:
    with pytest.raises(FamilyError, match=r"^it is damaged: ") as caught:
        parse(kind, content, "it is damaged")
    assert "\n" not in str(caught.value)


def test_what_could_not_be_read_back_is_not_written(tmp_path) -> None:
    net = make_network("resnet18")
    net.preprocessing = prunnet.Preprocessing((3, 32, 32), interpolation="magic")
    with pytest.raises(FamilyError, match=r"cannot be stored: preprocessing\.interpolation"):
        prunnet.save(net, tmp_path / "family")
    assert not (tmp_path / "family").exists()
