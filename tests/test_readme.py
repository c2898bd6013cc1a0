"""The README's code blocks and commands run as they are printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from prunnet import CompatibilityMatrix
from prunnet.cli.command import app
from prunnet.demo import SETTINGS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


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


def documented() -> list[str]:
    """Every command in a block of README or docs, in one line each, and those in the text."""
    text = "\n".join(page.read_text().replace("\\\n", " ") for page in PAGES)
    in_blocks = re.findall(r"^(?: {4})?(prunnet [a-z].*)$", text, flags=re.MULTILINE)
    in_text = re.findall(r"`(prunnet [a-z][^`]*)`", text)
    return sorted({command.partition("  #")[0].strip() for command in (*in_blocks, *in_text)})


@pytest.mark.parametrize("command", documented())
def test_documented_commands_have_these_options(command: str) -> None:
    found, words = typer.main.get_command(app), shlex.split(command.replace("'", " "))[1:]
    while isinstance(found, typer.core.TyperGroup) and words and words[0] in found.commands:
        found, *words = found.commands[words[0]], *words[1:]
    known = {option for parameter in found.params for option in parameter.opts} | {"--help", "-h", "--version"}
    assert {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known


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


MATRIX = CompatibilityMatrix.from_json(ROOT / "docs" / "results" / "demo" / "matrix.json")
DEMO = (ROOT / "docs" / "demo.md").read_text()


def in_dense_gallery(capacity: float) -> tuple[str, str]:
    """What the demo's subnetwork reaches in the dense gallery, and the share of the dense figure that this is."""
    reached = 100 * MATRIX.at(capacity, 1.0)
    return f"{reached:.1f}", f"{reached / MATRIX.at(1.0, 1.0):.1f}"


def test_the_recorded_matrix_is_of_the_demo() -> None:
    assert [model.capacity for model in MATRIX.models] == list(SETTINGS["evaluate_capacities"])
    assert float(in_dense_gallery(0.2)[1]) >= 95 and float(in_dense_gallery(0.13)[1]) >= 85  # as promised


def test_the_readme_has_the_figures_of_the_recorded_matrix() -> None:
    rows = re.findall(r"^\| (\d+) %.* \| ([\d.]+) \| ([\d.]+) % \|", README.read_text(), flags=re.MULTILINE)
    (dense, share, whole), *small = rows
    assert (dense, share, whole) == ("100", in_dense_gallery(1.0)[0], "100")
    assert [int(capacity) for capacity, *_ in small] == [20, 13]
    assert all((reached, share) == in_dense_gallery(int(capacity) / 100) for capacity, reached, share in small)


def test_the_page_of_the_demo_has_the_recorded_matrix() -> None:
    rows = re.findall(r"^│ +(\d+) % │ (.*) │$", DEMO, flags=re.MULTILINE)
    shown = {int(capacity) / 100: [cell.strip() for cell in cells.split("│")] for capacity, cells in rows}
    assert shown == {
        model.capacity: [f"{100 * value:.2f}" for value in row]
        for model, row in zip(MATRIX.models, MATRIX.values, strict=True)
    }
    said = re.findall(r"([\d.]+) mAP in the dense gallery, ([\d.]+) % of what", DEMO)
    assert said == [in_dense_gallery(0.2), in_dense_gallery(0.13)]
    assert re.findall(r"reaches \*\*([\d.]+) %\*\*", DEMO) == [share for _, share in said]
    searched = re.findall(r"queries by +(\d+) %, gallery by 100 %: mAP ([\d.]+)", DEMO)
    assert searched == [("100", in_dense_gallery(1.0)[0]), ("13", in_dense_gallery(0.13)[0])]


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_documents_use_the_words_of_the_glossary() -> None:
    glossary = ROOT / "docs" / "glossary.md"
    _, _, unused = glossary.read_text().partition("## Words that are not used")
    words = [" ".join(word.split()) for word in unused.partition(":")[2].strip(". \n").split(",")]
    assert len(words) > 5
    for page in (README, ROOT / "CHANGELOG.md", *(set((ROOT / "docs").rglob("*.md")) - {glossary})):
        text = " ".join(page.read_text().lower().split())
        assert [word for word in words if word in text] == [], page.name


def test_the_paths_of_the_architecture_are_those_that_calls_take() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "paths.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *paths, counts = done.stdout.strip().split("\n\n")
    assert len(paths) == 3 and all(f"```text\n{path}\n```" in page for path in paths), done.stdout
    assert re.findall(r": (\d+)", counts) == re.findall(r"(\d+)\s+files\.", page)


def prose(page: Path) -> str:
    """A page without tables, code and the addresses of its links."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(\||    ).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)\s]+\)", "]", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short(page: Path) -> None:
    assert [line for line in prose(page).splitlines() if len(line) > 120] == []
