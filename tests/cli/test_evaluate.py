"""`prunnet evaluate` from a saved family to files and an exit code."""

from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

import prunnet
from prunnet.cli.evaluate import evaluate
from prunnet.errors import CapacityError
from prunnet.evaluation import CompatibilityMatrix

app = typer.Typer()
app.command()(evaluate)


def save_family(seed: int, folder: Path) -> Path:
    torch.manual_seed(seed)
    backbone = prunnet.create_backbone("test_resnet", in_chans=1)
    family = prunnet.convert(backbone, 8, preprocessing=prunnet.Preprocessing((1, 16, 16)))
    prunnet.adapt_batchnorm(family, [torch.randn(32, 1, 16, 16)], capacities=(1, 0.8, 0.13))
    return prunnet.save(family, folder)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    save_family(0, tmp_path / "run" / "model")
    return tmp_path / "run"


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    from PIL import Image

    generator = np.random.default_rng(0)
    for part, count in (("query", 2), ("gallery", 4)):
        for label in range(3):
            folder = tmp_path / "photos" / part / str(label)
            folder.mkdir(parents=True)
            for number in range(count):
                array = generator.integers(0, 60, (12, 12)).astype(np.uint8)
                array[4 * label : 4 * label + 4] += 150
                Image.fromarray(array).save(folder / f"{number}.png")
    return tmp_path / "photos"


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_run_folder_gives_the_table_and_every_file(run: Path, photos: Path) -> None:
    code, output = invoke(run, "--data", photos, "--capacities", "1,.8,.13", "--bootstrap", 50, "--metric", "Recall@1")
    assert code == 0
    assert "Recall@1 (%)" in output
    assert "13 %" in output
    folder = next((run / "evaluations").iterdir())
    names = {
        "matrix.csv",
        "matrix.json",
        "matrix.npy",
        "matrix.md",
        "matrix.tex",
        "matrix.png",
        "curve.png",
    }
    assert {file.name for file in folder.iterdir()} == names
    matrix = CompatibilityMatrix.from_json(folder / "matrix.json")
    assert [model.capacity for model in matrix.models] == [1.0, 0.8, 0.13]
    assert matrix.intervals is not None
    assert len(list((run / "embeddings").iterdir())) == 6


def test_check_fails_the_command_when_a_pair_is_not_compatible(run: Path, photos: Path, tmp_path: Path) -> None:
    other = save_family(5, tmp_path / "other")  # another family shares no embedding space
    arguments = (run / "model", "--data", photos, "--capacities", "1", "--old", other, "--out", tmp_path / "out")
    code, output = invoke(*arguments)
    verdict = CompatibilityMatrix.from_json(tmp_path / "out" / "matrix.json").check()
    assert not verdict
    assert code == 0
    assert "not compatible" in output
    assert invoke(*arguments, "--check")[0] == 1
    assert invoke(*arguments, "--check", "--tolerance", "100")[0] == 0


def test_capacities_that_are_no_numbers_are_refused(run: Path, photos: Path) -> None:
    with pytest.raises(CapacityError, match="found '1,half'"):
        invoke(run, "--data", photos, "--capacities", "1,half")
