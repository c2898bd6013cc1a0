"""The README's code blocks and commands run as they are printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

README = Path(__file__).parent.parent / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos of ten classes, in which the Python blocks have run."""
    folder = tmp_path_factory.mktemp("readme")
    generator = np.random.default_rng(0)
    for label in range(10):
        for index in range(8):
            file = folder / "photos" / f"class{label}" / f"{index}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(file)
    script = "\n".join(blocks("python"))
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "output.txt").write_text(done.stdout)
    return folder


def test_python_blocks_print_what_they_say(folder: Path) -> None:
    output = (folder / "output.txt").read_text()
    assert "| φq \\ φg | 100 % | 80 % | 60 % | 40 % | 20 % |" in output
    assert re.search(r"tensor\(\[\[", output) and "Cost(capacity=" in output


def commands() -> list[str]:
    lines = "\n".join(blocks("sh")).splitlines()
    return [line.partition("#")[0].strip() for line in lines if line.startswith("prunnet ")]


@pytest.mark.parametrize("command", commands())
def test_commands_run(folder: Path, command: str) -> None:
    arguments = shlex.split(command)[1:]
    if "--dry-run" in arguments:  # two steps of ResNet-18 at 224 pixels suffice
        arguments += ["--set", "batch_size=4"]
    done = subprocess.run([sys.executable, "-m", "prunnet", *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_of_info_is_what_it_prints(folder: Path) -> None:
    (shown,) = (block for block in blocks("text") if "prunable layers" in block)
    command = [sys.executable, "-m", "prunnet", "info", "resnet18", "--max-bytes", "3MB"]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    assert [line.rstrip() for line in printed.splitlines()] == [line.rstrip() for line in shown.splitlines()]
