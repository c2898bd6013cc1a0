"""From a family folder to files for devices, by the commands."""

from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image
from tests.coupled import make_network, random_images
from typer.testing import CliRunner

import prunnet
from prunnet.cli.bench import bench
from prunnet.cli.export import export
from prunnet.cli.prune import prune
from prunnet.deploy.export.exported import load_exported
from prunnet.errors import CapacityError, PrunNetError
from prunnet.storage.subnetwork_folder import load_subnetwork

app = typer.Typer()
for command in (bench, export, prune):
    app.command()(command)


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    net = make_network("resnet18")
    prunnet.adapt_batchnorm(net, [random_images(16)], capacities=(0.2,))
    return prunnet.save(net, tmp_path_factory.mktemp("family") / "model")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder per class, for training and for testing: every class a colour, every picture another noise."""
    folder, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for split, classes in (("train", range(3)), ("test", range(3, 6))):
        for label in classes:
            (folder / split / str(label)).mkdir(parents=True)
            colour = random.integers(40, 216, 3)
            for number in range(6):
                pixels = colour + random.integers(-40, 40, (32, 32, 3))
                Image.fromarray(pixels.astype(np.uint8)).save(folder / split / str(label) / f"{number}.png")
    return folder


def test_prune_then_export(family: Path, tmp_path: Path) -> None:
    output = run("prune", family.parent, "--capacity", 0.2, "-o", tmp_path / "small")  # a run folder holds model/
    assert "at 20 %" in output
    subnetwork = load_subnetwork(tmp_path / "small")
    assert subnetwork.adapted
    output = run("export", tmp_path / "small", tmp_path / "small.onnx")
    assert "fp32" in output
    exported = load_exported(tmp_path / "small.onnx")
    assert (exported.family_id, exported.capacity) == (subnetwork.family_id, 0.2)


def test_prune_adapts_on_images(family: Path, pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(CapacityError, match="--data"):
        run("prune", family, "--capacity", 0.5, "-o", tmp_path / "half")
    assert not (tmp_path / "half").exists()
    run("prune", family, "--max-macs", "1M", "--data", pictures, "-o", tmp_path / "half")
    assert load_subnetwork(tmp_path / "half").adapted


def test_export_int8_says_what_it_costs(family: Path, pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(PrunNetError, match="--data"):
        run("export", family, tmp_path / "a.onnx", "--int8")
    output = run("export", family, tmp_path / "a.onnx", "--capacity", 0.2, "--int8", "--data", pictures)
    assert load_exported(tmp_path / "a.onnx").metadata.precision == "int8"
    assert "mAP: " in output
    assert "with int8 queries in a gallery indexed in fp32" in output


def test_export_refuses_a_capacity_of_one_subnetwork(family: Path, tmp_path: Path) -> None:
    run("prune", family, "--capacity", 1, "-o", tmp_path / "dense")
    with pytest.raises(CapacityError, match="is one subnetwork"):
        run("export", tmp_path / "dense", tmp_path / "a.onnx", "--capacity", 0.5)


def test_prunnet_is_a_runtime_of_bench_and_of_latency_budgets(family: Path, tmp_path: Path) -> None:
    output = run("bench", family, "--capacities", ".2", "--runtimes", "prunnet", "--rounds", 2)
    assert "prunnet" in output and "zeros" in output
    run("prune", family, "--max-latency", "1000s", "--runtime", "prunnet", "-o", tmp_path / "any")
    assert load_subnetwork(tmp_path / "any").capacity == 1.0
    with pytest.raises(CapacityError, match=r"at most 1e-06 ms in prunnet here: .*; prune structured, or"):
        run("prune", family, "--max-latency", "0.001us", "--runtime", "prunnet", "-o", tmp_path / "none")


def test_bench_shows_whether_zeros_pay(family: Path) -> None:
    output = run("bench", family, "--capacities", ".2", "--runtimes", "torch", "--structured", "--rounds", 2)
    for word in ("dense", "zeros", "structured", "torch"):
        assert word in output
