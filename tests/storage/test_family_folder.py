import json
import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.network.test_batchnorm import loader_for
from tests.networks import HandWritten, images_for, torchvision_vit
from tests.storage.forging import forge

import prunnet
from prunnet.errors import FamilyError

OPTIONS = {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]}


@pytest.fixture
def tiny() -> prunnet.PrunableNetwork:
    """A small timm network that a family folder can rebuild by itself."""
    torch.manual_seed(0)
    backbone = prunnet.create_backbone("resnet18", **OPTIONS)
    return prunnet.convert(backbone, 8, preprocessing=prunnet.Preprocessing((1, 32, 32)), ranking="signed")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@torch.no_grad()
def test_a_saved_family_comes_back_whole(tiny, tmp_path) -> None:
    tiny.capacities = (0.8, 0.2)
    prunnet.adapt_batchnorm(tiny, loader_for(tiny), capacities=(1, 0.8, 0.2, 0.123456789))
    loaded = prunnet.load(prunnet.save(tiny, tmp_path / "family"))
    images = images_for(tiny)
    for capacity in (1.0, 0.8, 0.2, 0.123456789):
        assert torch.equal(loaded(images, capacity), tiny.eval()(images, capacity))
    for name in ("family_id", "capacities", "preprocessing", "ranking"):
        assert getattr(loaded, name) == getattr(tiny, name)
    assert list(loaded.scores) == list(tiny.scores) and set(loaded.statistics) == {0.8, 0.2, 0.123456789}
    assert files_of(prunnet.save(loaded, tmp_path / "again")) == files_of(tmp_path / "family")


@pytest.mark.filterwarnings("ignore::prunnet.NotAdaptedWarning")
@torch.no_grad()
def test_every_backbone_round_trips(net, tmp_path) -> None:
    prunnet.save(net, tmp_path / "family")
    own = json.loads((tmp_path / "family/config.json").read_text())["backbone"] is None
    if own:
        with pytest.raises(FamilyError, match=r"pass one: prunnet.load\(.*backbone=...\)"):
            prunnet.load(tmp_path / "family")
        torch.manual_seed(1)
        fresh = HandWritten() if isinstance(net.backbone, HandWritten) else torchvision_vit()
    loaded = prunnet.load(tmp_path / "family", backbone=fresh if own else None)
    images = images_for(net)
    assert torch.equal(loaded(images, 0.3), net(images, 0.3))


def test_a_timm_model_made_elsewhere_is_recognised_unless_it_was_altered(tmp_path) -> None:
    import timm

    plain = timm.create_model("resnet18", num_classes=0)
    altered = timm.create_model("resnet18", num_classes=0, in_chans=1)
    for name, backbone, known in (("plain", plain, True), ("altered", altered, False)):
        prunnet.save(prunnet.convert(backbone), tmp_path / name)
        assert (json.loads((tmp_path / name / "config.json").read_text())["backbone"] is not None) == known


def test_folder_holds_what_the_design_says(tiny, tmp_path) -> None:
    folder = prunnet.save(tiny, tmp_path / "family")
    assert set(files_of(folder)) == {"model.safetensors", "config.json", "README.md"}
    assert f"# PrunNet family {tiny.family_id}" in (folder / "README.md").read_text()
    assert "| 20 % |" in (folder / "README.md").read_text()
    assert "scores.conv1.weight" in load_file(folder / "model.safetensors")


def damage_truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def damage_header(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(b"\xff" * 8 + file.read_bytes()[8:])


def damage_version(folder: Path) -> None:
    forge(folder, {"version": 99})


def damage_missing_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def damage_missing_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def damage_foreign(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "bert"}')


def damage_json(folder: Path) -> None:
    (folder / "config.json").write_text('{"format": ')


def damage_key(folder: Path) -> None:
    forge(folder, {"embedding_dim": None})


def damage_unknown_key(folder: Path) -> None:
    forge(folder, {"colour": "blue"})


def damage_dimensions(folder: Path) -> None:
    forge(folder, {"embedding_dim": 9})


def damage_shape(folder: Path) -> None:
    forge(folder, {"backbone": {"name": "resnet18", "options": {**OPTIONS, "channels": [8, 8, 16, 32]}}})


def damage_depth(folder: Path) -> None:
    forge(folder, {"backbone": {"name": "resnet18", "options": {**OPTIONS, "layers": [60_000, 1, 1, 1]}}})


def damage_depth_beyond_reason(folder: Path) -> None:
    forge(folder, {"backbone": {"name": "resnet18", "options": {**OPTIONS, "layers": [10**9, 1, 1, 1]}}})


def damage_pooling(folder: Path) -> None:
    forge(folder, {"backbone": {"name": "resnet18", "options": {**OPTIONS, "global_pool": "catavgmax"}}})


def damage_option(folder: Path) -> None:
    forge(folder, {"backbone": {"name": "resnet18", "options": {**OPTIONS, "drop_rate": float("inf")}}})


def damage_capacity(folder: Path) -> None:
    forge(folder, {"capacities": [0.5, float("nan")]})


def damage_type(folder: Path) -> None:
    forge(folder, {"embedding_dim": "8"})


def damage_nesting(folder: Path) -> None:
    forge(folder, {"capacities": [[[[0.5]]]]})


def damage_lost_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["scores.conv1.weight"]
    forge(folder, {}, tensors)


def damage_extra_tensor(folder: Path) -> None:
    forge(folder, {}, {**load_file(folder / "model.safetensors"), "extra": torch.zeros(1)})


def damage_prunable(folder: Path) -> None:
    forge(folder, {"prunable": ["no.such.layer"], "sensitivities": [1.0]})


def damage_recipe(folder: Path) -> None:
    forge(folder, {"backbone": {"name": "resnet18", "options": {"checkpoint_path": "elsewhere.pth"}}})


def damage_edit(folder: Path) -> None:
    """By hand: the weights know the config they were saved with."""
    file = folder / "config.json"
    file.write_text(file.read_text().replace('"signed"', '"magnitude"'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_truncate, "model.safetensors is truncated or damaged"),
        (damage_header, "model.safetensors is truncated or damaged"),
        (damage_version, "format version 99, this prunnet reads up to 3; upgrade prunnet"),
        (damage_missing_weights, "model.safetensors is missing"),
        (damage_missing_config, "is no family folder: it has no config.json"),
        (damage_foreign, "is no family folder"),
        (damage_json, "config.json is damaged"),
        (damage_key, "config.json is damaged: embedding_dim: Field required"),
        (damage_unknown_key, "config.json is damaged: colour: Extra inputs"),
        (damage_dimensions, r"head.linear.weight has shape \(8, 16\), which does not give 9 dimensions"),
        (damage_shape, r"has shape .*, the network expects \(32,"),
        (damage_depth, "far more layers than there are tensors"),
        (damage_depth_beyond_reason, "backbone.options: Value error, 1000000000 is no size of a network"),
        (damage_pooling, "gives 32 features, its head takes 16"),
        (damage_option, "inf is no size of a network"),
        (damage_capacity, "capacities.1: Input should be"),
        (damage_type, "embedding_dim: Input should be a valid integer"),
        (damage_nesting, "capacities.0: Input should be a valid number"),
        (damage_edit, "is not the one that was saved with the weights"),
        (damage_lost_tensor, "lacks the tensor scores.conv1.weight"),
        (damage_extra_tensor, "has the tensor extra"),
        (damage_recipe, "asks timm to load weights .checkpoint_path.*which no file may do"),
        (damage_prunable, "does not describe a network that can be built.*no.such.layer"),
    ],
)
def test_a_damaged_folder_gives_one_clear_line(tiny, tmp_path, damage, message: str) -> None:
    folder = prunnet.save(tiny, tmp_path / "family")
    damage(folder)
    with pytest.raises(FamilyError, match=message) as caught:
        prunnet.load(folder)
    assert "\n" not in str(caught.value)


def test_a_damaged_family_can_be_saved_again(tiny, tmp_path) -> None:
    folder = prunnet.save(tiny, tmp_path / "family")
    for damage in (damage_truncate, damage_missing_weights, damage_unknown_key):
        damage(folder)
        assert prunnet.load(prunnet.save(tiny, folder)).family_id == tiny.family_id


def test_a_folder_that_is_not_there_says_so(tmp_path) -> None:
    with pytest.raises(FamilyError, match="nowhere does not exist"):
        prunnet.load(tmp_path / "nowhere")


def test_saving_again_replaces_the_family_and_keeps_other_files(tiny, tmp_path) -> None:
    folder = prunnet.save(tiny, tmp_path / "family")
    (folder / "notes.txt").write_text("mine")
    with torch.no_grad():
        tiny.head.linear.bias.add_(1)
    prunnet.save(tiny, folder)
    assert torch.equal(prunnet.load(folder).head.linear.bias, tiny.head.linear.bias)
    assert (folder / "notes.txt").read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["family"]


def test_a_failed_save_leaves_the_old_folder_intact(tiny, tmp_path, monkeypatch) -> None:
    folder = prunnet.save(tiny, tmp_path / "family")
    before = files_of(folder)

    def full_disk(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    with torch.no_grad():
        tiny.head.linear.bias.add_(1)
    monkeypatch.setattr("prunnet.storage.folders.save_tensors", full_disk)
    with pytest.raises(FamilyError, match=r"No space left on device.*unchanged"):
        prunnet.save(tiny, folder)
    assert files_of(folder) == before and [entry.name for entry in tmp_path.iterdir()] == ["family"]


def test_a_foreign_folder_is_not_overwritten(tiny, tmp_path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FamilyError, match="exists and is no family folder"):
        prunnet.save(tiny, tmp_path)
    assert files_of(tmp_path) == {"thesis.tex": b"years of work"}


def test_saved_files_have_ordinary_permissions(tiny, tmp_path) -> None:
    folder = prunnet.save(tiny, tmp_path / "family")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask
    assert stat.S_IMODE((folder / "config.json").stat().st_mode) == 0o666 & ~mask
