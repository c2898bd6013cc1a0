import pytest
from tests.coupled import make_network
from tests.storage.forging import forge

import prunnet
from prunnet.errors import FamilyError
from prunnet.narrow import Members
from prunnet.narrow.narrowing import narrow
from prunnet.storage.members_folder import save_members


def members(*capacities: float) -> Members:
    dense = make_network("resnet18").subnetwork(1.0)
    return Members([narrow(dense, capacity)[0] for capacity in capacities])


def test_damage_gives_one_clear_line(tmp_path) -> None:
    folder = save_members(members(0.5, 0.2), tmp_path / "members")
    for change, message in (
        ({"capacities": []}, "capacities: Tuple should have at least 1 item"),
        ({"capacities": [0.5, "0.2"]}, "capacities.1: Input should be a valid number"),
        ({"capacities": [0.5, 0.3]}, "0.3 is no subnetwork folder"),
        ({"capacities": [0.5, 0.2000000001]}, "mixes families: 0.2 holds 0.2 of .*, not 0.2000000001 of"),
        ({"compatible": 1}, "compatible: Input should be a valid boolean"),
        ({"family_id": "another"}, "mixes families: 0.5 holds 0.5 of .*, not 0.5 of 'another'"),
        ({"base": "."}, "extends .*, which extends it"),
        ({"base": 3}, "base: Input should be a valid string"),
    ):
        save_members(members(0.5, 0.2), folder)
        forge(folder, change)
        with pytest.raises(FamilyError, match=message) as caught:
            prunnet.load(folder)
        assert "\n" not in str(caught.value)


def test_members_that_would_share_a_folder_are_refused(tmp_path) -> None:
    with pytest.raises(FamilyError, match=r"cannot hold members this close to each other: 0\.5, 0\.49999999"):
        save_members(members(0.5, 0.49999999), tmp_path / "members")
    assert not (tmp_path / "members").exists()


def test_members_whose_base_is_gone_say_so(tmp_path) -> None:
    folder = save_members(members(0.5), tmp_path / "members", base=tmp_path / "gone")
    loaded = prunnet.load(folder)
    assert isinstance(loaded, Members) and loaded.extends == str(folder / "../gone")
