"""Files of every format version, written when it was the newest, read by this one: the same embeddings, to the bit.

Each holds runs (prunnet, joint, filters, independent, and bct, which extends joint), a subnetwork with zeros and one
without filters, and `.prun` files in both precisions. tests/golden/make.py makes such a folder with this version.
"""

import json
import shutil
from pathlib import Path

import pytest
import torch

import prunnet
from prunnet._checked import load_tensors

GOLDEN = Path(__file__).parent / "golden"
VERSIONS = sorted(folder.name for folder in GOLDEN.iterdir() if folder.name.startswith("version-"))


def expected_of(version: str) -> dict[str, torch.Tensor]:
    return load_tensors(GOLDEN / version / "expected.safetensors", sealed=False)[0]


CASES = [(version, name) for version in VERSIONS for name in expected_of(version) if name != "images"]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(("version", "name"), CASES)
def test_what_was_stored_embeds_as_it_did(version: str, name: str) -> None:
    expected = expected_of(version)
    source, _, capacity = name.partition(".")
    file = {"float16": "family-float16.prun", "int8": "family-int8.prun"}.get(source, source)
    subnetwork = prunnet.load(GOLDEN / version / file, capacity=float(capacity))
    assert isinstance(subnetwork, prunnet.Subnetwork)
    with torch.no_grad():
        torch.testing.assert_close(subnetwork(expected["images"]), expected[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_is_read_whole_and_goes_on(version: str, tmp_path: Path) -> None:
    for name in ("run", "filters", "joint"):
        run = prunnet.Run(GOLDEN / version / name)
        assert run.state == "done" and run.steps and run.matrix.at(1.0, 1.0) > 0
        assert run.config.selection == ("filters" if name == "filters" else "connections")
    shutil.copytree(GOLDEN / version / "run", tmp_path / "run")
    again = prunnet.train(out=tmp_path / "run", resume=True, quiet=True)
    assert again.matrix.values.tolist() == run_matrix(version)
    shutil.rmtree(tmp_path / "run" / "evaluation")  # stopped after its last step, before it was judged
    resumed = prunnet.train(out=tmp_path / "run", resume=True, quiet=True)
    assert resumed.matrix.values.shape == again.matrix.values.shape


def run_matrix(version: str) -> list[list[float]]:
    values: list[list[float]] = prunnet.Run(GOLDEN / version / "run").matrix.values.tolist()
    return values


@pytest.mark.parametrize("version", VERSIONS)
def test_members_know_what_they_extend(version: str) -> None:
    family = prunnet.load(GOLDEN / version / "bct")
    if version == "version-1":  # which did not say so
        assert family.capacities == (0.1,)
    else:
        assert family.capacities == (0.5, 0.2, 0.1) and family.subnetwork(1.0).capacity == 1.0


def test_there_is_a_folder_of_the_present_versions() -> None:
    from prunnet.storage.documents import FamilyDocument, MembersDocument, SubnetworkDocument

    folders = {"run/model": FamilyDocument, "joint/model": MembersDocument, "narrow": SubnetworkDocument}
    for folder, document in folders.items():
        version = json.loads((GOLDEN / VERSIONS[-1] / folder / "config.json").read_text())["version"]
        assert version == document.model_fields["version"].default, f"{folder} is of an older version"
