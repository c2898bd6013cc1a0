import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer.main
from typer.core import TyperGroup

from prunnet.cli.command import app


def prunnet(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "prunnet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"COLUMNS": "120", "TERM": "dumb"})


def verbs(command: object, *names: str) -> Iterator[tuple[str, ...]]:
    """Every command that does something, with the groups it is in."""
    if not isinstance(command, TyperGroup):
        yield names
        return
    for name, inner in command.commands.items():
        yield from verbs(inner, *names, name)


COMMAND = typer.main.get_command(app)
VERBS = list(verbs(COMMAND))


def test_help_lists_every_verb() -> None:
    text = prunnet("--help").stdout
    assert {("train",), ("data", "check")} <= set(VERBS)
    assert all(f" {verb} " in text for verb in COMMAND.commands)
    assert prunnet("--version").stdout.startswith("prunnet 0.")


HELP = """
import sys
from prunnet.cli import main
try:
    main()
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_of_every_verb_teaches_at_once(verb: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", HELP, *verb, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "False\n"
    _, examples = done.stdout.split("Examples:")
    assert f"prunnet {' '.join(verb)}" in examples


def test_info_prints_the_cost_of_a_timm_model() -> None:
    done = prunnet("info", "resnet18", "--capacities", "1,.2", "--max-bytes", "3MB", "--layers")
    assert done.returncode == 0
    assert "11,176,512" in done.stdout and "1.81 G" in done.stdout and "5.74 MB" in done.stdout
    assert "Largest capacity within the budget: 0.0935182" in done.stdout and "conv1.weight" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("info", "resnet81"), "timm has no model 'resnet81'"),
        (("info", "resnet18", "--capacities", "20"), "for 20 % write 0.2"),
        (("info", "resnet18", "--capacities", "a,b"), "found 'a,b'"),
        (("train", "--set", "epoch=3", "--out", "x"), "there is no setting 'epoch'; the nearest is 'epochs'"),
        (("train", "--preset", "gldv3", "--out", "x"), "there is no preset 'gldv3'"),
        (("train",), "name the run folder: --out runs/a"),
        (("evaluate", "nowhere"), "nowhere is no "),
    ],
)
def test_mistakes_end_in_one_line_without_a_traceback(arguments: tuple[str, ...], message: str) -> None:
    done = prunnet(*arguments)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in prunnet("--debug", "info", "resnet81").stderr


def test_settings_and_presets_are_listed() -> None:
    text = prunnet("train", "--settings").stdout
    assert "normalise_step" in text and "paper-gldv2-cnn" in text


def test_dry_run_prints_the_plan_and_trains_nothing(tmp_path) -> None:
    done = prunnet(
        "train", "--dry-run", "--out", str(tmp_path / "run"),
        "--set", "data_options.classes=12", "--set", "data_options.images_per_class=8", "--set", "batch_size=16",
        "--set", "backbone_options={in_chans: 1, channels: [8, 8, 16, 16], layers: [1, 1, 1, 1]}",
        "--set", "input_size=[1, 32, 32]",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "capacities:" in done.stdout and "of 4 passes" in done.stdout and "s per step" in done.stdout
    assert not (tmp_path / "run").exists()
