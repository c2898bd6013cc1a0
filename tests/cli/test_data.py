import os
import subprocess
import sys

import pytest
from PIL import Image
from typer.testing import CliRunner

from prunnet.cli.data import app
from prunnet.data import DATASETS


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def photos(tmp_path, draw):
    for part, labels in (("train", "abc"), ("test", "xy")):
        for label in labels:
            for number in range(2):
                draw(tmp_path / part / label / f"{number}.png")
    return tmp_path


def test_list_shows_every_data_set_and_where_to_get_it(run):
    result = run("list")
    assert result.exit_code == 0
    for entry in DATASETS.values():
        assert entry.name in result.output and (entry.source in result.output or entry.source == "built in")


def test_check_of_sound_data(run, photos):
    result = run("check", photos)
    assert result.exit_code == 0 and "No errors" in result.output


def test_check_fails_on_errors(run, photos):
    (photos / "test/x/0.png").write_bytes(b"")
    result = run("check", photos)
    assert result.exit_code == 1
    assert "unreadable image" in result.output and "query without an answer" not in result.output


def test_check_names_what_is_no_picture(run, photos):
    os.mkfifo(photos / "train/a/pipe.png")
    Image.new("RGB", (8, 8)).save(photos / "train/b/drawing.jpg", "EPS")
    result = run("check", photos)
    assert result.exit_code == 1
    assert "pipe.png: cannot be read" in result.output and "drawing.jpg: cannot be read" in result.output


def test_check_of_unusable_input(run, tmp_path):
    (tmp_path / "m.csv").write_text("path,label\n")
    result = run("check", tmp_path / "m.csv")
    assert result.exit_code == 2 and "m.csv:1: the header lacks split" in result.output
    assert run("check", "nothing").exit_code == 2


def test_check_of_a_named_data_set(run, tmp_path, draw):
    for folder, name in (
        ("bounding_box_train", "0002_c1s1_000451_03.jpg"),
        ("query", "0001_c1s1_001051_00.jpg"),
        ("bounding_box_test", "0001_c1s1_000976_01.jpg"),
    ):
        draw(tmp_path / folder / name)
    result = run("check", "market1501", "--root", tmp_path)
    assert result.exit_code == 1 and "query without an answer in the gallery" in result.output  # only its own camera


def test_the_module_imports_nothing_heavy():
    code = (
        "import sys, prunnet.cli.data; print([m for m in ('torch', 'numpy', 'rich.table', 'PIL') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
