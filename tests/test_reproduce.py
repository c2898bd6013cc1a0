"""The commands of docs/reproduce-the-paper.md are understood as far as they can be without the data."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from prunnet.cli.main import app
from prunnet.errors import PrunNetError
from prunnet.training.presets import PRESETS

PAGE = (Path(__file__).parent.parent / "docs" / "reproduce-the-paper.md").read_text()
PAPER = ("gldv2", "roxford5k", "rparis6k", "inshop", "veri776", "market1501", "msmt17", "cub200", "cifar10")


def commands() -> list[str]:
    text = "".join(re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)).replace("\\\n", " ")
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.mark.parametrize("command", commands())
def test_a_command_asks_for_its_data_and_nothing_else(command: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    program, verb, *arguments = shlex.split(command)
    assert program == "prunnet"
    error = CliRunner().invoke(app, [verb, *arguments]).exception
    assert isinstance(error, PrunNetError)  # options and settings are read first, and would be a usage error
    root = arguments[arguments.index("--root") + 1]
    missing = (
        rf"{root}: no such folder; {Path(root).name} needs" if verb in ("train", "compare") else r"runs/gldv2 is no "
    )
    assert re.match(missing, str(error))


def test_every_data_set_of_the_paper_has_a_place_and_a_command() -> None:
    for name in PAPER:
        assert f"    DATA/{name}/  " in PAGE
        assert any(f"--root DATA/{name} " in command for command in commands())


def test_presets_and_settings_named_in_tables_exist() -> None:
    from prunnet.training.config import merge_assignments, resolve

    assert set(re.findall(r"--preset (\S+)", PAGE)) <= PRESETS.keys()
    for row in re.findall(r"^\|.*\|$", PAGE, flags=re.MULTILINE):
        for setting in re.findall(r"`(\w+=\w+)`", row):
            resolve(merge_assignments({}, [setting]))
