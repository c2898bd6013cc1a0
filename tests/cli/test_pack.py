import pytest
import typer
from typer.testing import CliRunner

import prunnet
from prunnet.cli.pack import pack, unpack
from prunnet.errors import CapacityError, FamilyError
from prunnet.storage.prun import prefix_bytes
from prunnet.storage.subnetwork_folder import load_subnetwork

app = typer.Typer()
app.command()(pack)
app.command()(unpack)


def run(*arguments: object) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def family(tiny, tmp_path):
    return prunnet.save(tiny, tmp_path / "run" / "model")


def test_a_family_goes_into_a_file_and_a_subnetwork_comes_out(tiny, family, tmp_path) -> None:
    file, small = tmp_path / "a.prun", tmp_path / "small"
    shown = run("pack", family.parent, "-o", file, "--values", "int8")  # a run folder will do
    assert tiny.family_id in shown and "int8" in shown and "100 %" in shown
    read = f"{prefix_bytes(file, 0.1) / 1e3:.2f} kB read"
    assert read in run("unpack", file, "--capacity", 0.1, "-o", small)
    loaded = load_subnetwork(small)
    expected = prunnet.unpack(file, 0.1).state_dict()
    assert all((tensor == expected[name]).all() for name, tensor in loaded.state_dict().items())
    assert (loaded.family_id, loaded.capacity, loaded.adapted) == (tiny.family_id, 0.1, True)


def test_a_file_for_the_runtime_says_so_and_runs(tiny, family, tmp_path) -> None:
    file = tmp_path / "a.prun"
    assert "with a program to run" in run("pack", family, "-o", file, "--runtime")
    assert "with a program to run" in run("pack", "--inspect", file)
    assert prunnet.Runtime(file, 0.2).family_id == tiny.family_id


def test_inspect_shows_every_band_and_what_a_prefix_holds(packed, tmp_path) -> None:
    file = tmp_path / "a.prun"
    file.write_bytes(packed)
    whole = run("pack", "--inspect", file)
    assert "bound" in whole and "prefix" not in whole and "program" not in whole
    rows = [line for line in whole.splitlines() if " % " in line]
    assert len(rows) == 12 and "5 %" in rows[0] and "100 %" in rows[-1]
    file.write_bytes(packed[: prefix_bytes(file, 0.2)])
    assert "it holds capacities up to 20 %" in run("pack", "--inspect", file)


def test_mistakes_are_named(family, tmp_path) -> None:
    with pytest.raises(CapacityError, match="never adapted at 33 %"):
        run("pack", family, "--grid", ".33,1", "-o", tmp_path / "a.prun")
    with pytest.raises(FamilyError, match=r"config\.json cannot be read|is no \.prun file|cannot be read"):
        run("pack", "--inspect", family)


def test_missing_statistics_are_adapted_on_data(tmp_path) -> None:
    net = prunnet.convert(
        prunnet.create_backbone("resnet18", in_chans=1, channels=(8, 8, 8, 8)),
        8,
        preprocessing=prunnet.Preprocessing((1, 32, 32)),
    )
    family = prunnet.save(net, tmp_path / "family")
    file = tmp_path / "a.prun"
    run("pack", family, "--grid", ".5,1", "-o", file, "--data", "glyphs", "--adapt-batches", 1)
    assert prunnet.unpack(file, 0.5).adapted
