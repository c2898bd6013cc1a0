import json

import pytest
import torch
from tests.coupled import make_network, random_images
from tests.storage.forging import forge

from prunnet.errors import FamilyError
from prunnet.storage.subnetwork_folder import load_subnetwork, save_subnetwork
from prunnet.structured import structured_subnetwork


@pytest.mark.filterwarnings("ignore::prunnet.NotAdaptedWarning")
@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("name", ["resnet18", "resnext50_32x4d", "mobilenetv2", "vit"])
@torch.no_grad()
def test_a_saved_subnetwork_comes_back_whole(tmp_path, name: str, structured: bool) -> None:
    net = make_network(name)
    subnetwork = structured_subnetwork(net, 0.5) if structured else net.subnetwork(0.3)
    loaded = load_subnetwork(save_subnetwork(subnetwork, tmp_path / "small"))
    assert torch.equal(loaded(random_images(2)), subnetwork(random_images(2)))
    for attribute in ("family_id", "capacity", "adapted", "preprocessing"):
        assert getattr(loaded, attribute) == getattr(subnetwork, attribute)


def test_damage_gives_one_clear_line(tmp_path) -> None:
    folder = save_subnetwork(make_network("resnet18").subnetwork(1.0), tmp_path / "small")
    config = json.loads((folder / "config.json").read_text())
    for change, message in (
        ({"version": 9}, "version 9"),
        ({"format": "other"}, "is no subnetwork folder"),
        ({"embedding_dim": 3}, r"head\.linear\.weight has shape .*the network expects \(3, 64\)"),
        ({"features": 2**31 - 1}, "a far larger network than there are values"),
        ({"backbone": {"name": "resnet18", "options": {"channels": [60_000] * 4}}}, "a far larger network"),
        ({"backbone": {"name": "resnet18", "options": {"layers": [60_000] * 4}}}, "far more layers"),
        ({"shapes": {"conv1": [999, 3]}}, "does not describe a network that can be built"),
        ({"capacity": 1.5}, "capacity: Input should be less than or equal to 1"),
        ({"adapted": "yes"}, "adapted: Input should be a valid boolean"),
        ({"preprocessing": {**config["preprocessing"], "std": [0.0] * 3}}, "preprocessing.std.0"),
        ({"preprocessing": {**config["preprocessing"], "input_size": [3, 10**6, 10**6]}}, "preprocessing.input_size.1"),
        ({"preprocessing": {**config["preprocessing"], "interpolation": "magic"}}, "preprocessing.interpolation"),
    ):
        forge(folder, change)
        with pytest.raises(FamilyError, match=message) as caught:
            load_subnetwork(folder)
        assert "\n" not in str(caught.value)
        forge(folder, config)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(FamilyError, match="truncated or damaged"):
        load_subnetwork(folder)
