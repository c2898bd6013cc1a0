"""The commands of docs/reproduce-the-paper.md are understood as far as they can be without the data."""

import re
import shlex
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

from prunnet.cli.command import app
from prunnet.errors import PrunNetError
from prunnet.network import create_backbone
from prunnet.runs.presets import PRESETS

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


TREES: dict[str, dict[str, str]] = {
    "gldv2": {
        **{f"{part}/{name[0]}/{name[1]}/{name[2]}/{name}.jpg": "" for part, names in {
            "train": ("6e158a47eb2ca3f6", "202cd79556f30760", "3ad87684c99c06e1", "4ad87684c99c06e1"),
            "index": ("0000f928e383e1bd",), "test": ("e324e0f3e6d9e504",),
        }.items() for name in names},
        "train_clean.csv": (
            "landmark_id,images\n1,6e158a47eb2ca3f6 202cd79556f30760\n2,3ad87684c99c06e1 4ad87684c99c06e1\n"
        ),
        "index_image_to_landmark.csv": "id,landmark_id\n0000f928e383e1bd,5\n",
        "retrieval_solution_v2.1.csv": "id,images,Usage\ne324e0f3e6d9e504,0000f928e383e1bd,Private\n",
    },
    "inshop": {
        **{f"Img/img/{item}/{number}.jpg": "" for item in ("id_1", "id_2", "id_3") for number in (1, 2)},
        "Eval/list_eval_partition.txt": "6\nimage_name item_id evaluation_status\n" + "".join(
            f"img/{item}/{number}.jpg {item} {status}\n"
            for item, statuses in (("id_1", "tt"), ("id_2", "tt"), ("id_3", "qg"))
            for number, letter in enumerate(statuses, start=1)
            for status in [{"t": "train", "q": "query", "g": "gallery"}[letter]]
        ),
    },
    "veri776": {
        f"image_{part}/{number:04d}_c00{camera}_00016450_0.jpg": ""
        for part, number, camera in (
            ("train", 1, 1), ("train", 1, 2), ("train", 2, 1), ("train", 2, 2), ("query", 3, 1), ("test", 3, 2),
        )
    },
    "market1501": {
        f"{part}/{number:04d}_c{camera}s1_000451_03.jpg": ""
        for part, number, camera in (
            ("bounding_box_train", 1, 1), ("bounding_box_train", 1, 2), ("bounding_box_train", 2, 1),
            ("bounding_box_train", 2, 2), ("query", 3, 1), ("bounding_box_test", 3, 2),
        )
    },
    "msmt17": {
        **{f"{part}/{person:04d}/{person:04d}_000_0{camera}_0303morning_0015_0.jpg": ""
           for part, person, camera in (
               ("train", 0, 1), ("train", 1, 1), ("train", 1, 2), ("test", 0, 1), ("test", 0, 2),
           )},
        "list_train.txt": "0000/0000_000_01_0303morning_0015_0.jpg 0\n0001/0001_000_01_0303morning_0015_0.jpg 1\n",
        "list_val.txt": "0001/0001_000_02_0303morning_0015_0.jpg 1\n",
        "list_query.txt": "0000/0000_000_01_0303morning_0015_0.jpg 0\n",
        "list_gallery.txt": "0000/0000_000_02_0303morning_0015_0.jpg 0\n",
    },
    "cub200": {
        **{f"images/{label}/{number}.jpg": "" for label in ("001.A", "002.B") for number in (1, 2)},
        "images.txt": "1 001.A/1.jpg\n2 001.A/2.jpg\n3 002.B/1.jpg\n4 002.B/2.jpg\n",
        "classes.txt": "1 001.A\n2 002.B\n",
        "image_class_labels.txt": "1 1\n2 1\n3 2\n4 2\n",
        "train_test_split.txt": "1 1\n2 0\n3 1\n4 0\n",
    },
}  # fmt: skip
"""The least of each benchmark that can be trained on; a name without text is an image."""


def plant(root: Path, files: dict[str, str]) -> None:
    for number, (name, text) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text:
            path.write_text(text)
        else:
            Image.new("RGB", (12, 10), (number, 0, 0)).save(path)


@pytest.mark.slow  # two steps of each of the paper's networks
@pytest.mark.parametrize("command", [command for command in commands() if command.startswith("prunnet train")])
def test_the_plan_of_every_training(command: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, verb, *arguments = shlex.split(command)
    name = Path(arguments[arguments.index("--root") + 1]).name
    plant(tmp_path / "DATA" / name, TREES[name])
    if "--set" in arguments and "weights=" in command:
        weights = create_backbone("vit_small_patch16_224").state_dict()
        save_file(weights, tmp_path / "vit_small_imagenet1k.safetensors")
    balanced = ["--set", "classes_per_batch=2", "--set", "images_per_class=1"] if "classes_per_batch" in PRESETS[
        arguments[arguments.index("--preset") + 1]
    ] else []  # fmt: skip
    small = ["--set", "batch_size=2", *balanced, "--dry-run"]
    result = CliRunner().invoke(app, [verb, *arguments, *small], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "passes" in result.output and "2 classes" in result.output
    assert not (tmp_path / "runs").exists()


def test_every_data_set_of_the_paper_has_a_place_and_a_command() -> None:
    for name in PAPER:
        assert f"    DATA/{name}/  " in PAGE
        assert any(f"--root DATA/{name} " in f"{command} " for command in commands())


def test_presets_and_settings_named_in_tables_exist() -> None:
    from prunnet.runs.config import resolve
    from prunnet.runs.settings import merge_assignments

    assert set(re.findall(r"--preset (\S+)", PAGE)) <= PRESETS.keys()
    for row in re.findall(r"^\|.*\|$", PAGE, flags=re.MULTILINE):
        for setting in re.findall(r"`(\w+=\w+)`", row):
            resolve(merge_assignments({}, [setting]))
