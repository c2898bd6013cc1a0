"""Every script in examples/ runs, on a family trained for one epoch, and says what it should."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import prunnet
from prunnet.demo import demo_settings
from tests.search.servers import milvus, postgres

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", EXAMPLES / script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's own network, on a handful of characters."""
    folder = tmp_path_factory.mktemp("examples") / "run"
    few = {"data_options": {"classes": 12, "images_per_class": 8, "size": 32}, "batch_size": 16, "epochs": 1}
    prunnet.train(None, None, out=folder, quiet=True, **{**demo_settings(quick=True, seed=0), **few})
    return folder


def test_every_script_is_short_and_tested() -> None:
    tested = set(re.findall(r'run\("(\w+\.py)"', Path(__file__).read_text()))
    scripts = {file.name for file in EXAMPLES.glob("[a-z]*.py")}
    assert scripts == tested
    assert all(len((EXAMPLES / name).read_text().splitlines()) < 60 for name in scripts)


def test_train_on_a_folder(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for label in range(8):
        for index in range(8):
            file = tmp_path / "photos" / f"class{label}" / f"{index}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(file)
    out = tmp_path / "run"
    options = ("--out", out, "--backbone", "resnet10t", "--size", 32, "--epochs", 1, "--batch-size", 16)
    text = run("train_on_a_folder.py", tmp_path / "photos", *options)
    assert "pairs are compatible" in text and (out / "model" / "model.safetensors").is_file()


def test_your_own_backbone(tmp_path: Path) -> None:
    text = run("your_own_backbone.py", "--out", tmp_path / "run", "--epochs", 1)
    assert "connections=64,512 in 3 layers" in text and "a batch of two: (2, 64)" in text


def test_choose_for_a_budget(trained: Path) -> None:
    text = run("choose_for_a_budget.py", "--run", trained)
    found = {name: int(size.replace(",", "")) for name, size in re.findall(r"(\w+): .*?, +([\d,]+) bytes,", text)}
    assert found.keys() == {"laptop", "phone", "camera", "watch"}
    assert found["laptop"] <= 400_000 and found["phone"] <= 200_000 and found["watch"] <= 120_000
    assert found["camera"] < found["phone"]
    assert (trained / "examples" / "watch" / "model.safetensors").is_file()


def test_query_small_gallery_large(trained: Path) -> None:
    lines = run("query_small_gallery_large.py", "--run", trained).splitlines()
    assert len(lines) == 8 and all(re.match(r"([✓✗] ){5} U\+", line) for line in lines)


def test_search_a_gallery(trained: Path) -> None:
    *lines, last = run("search_a_gallery.py", "--run", trained).splitlines()
    assert len(lines) >= 8 and all(re.match(r"([✓✗] ){5}U\+", line) for line in lines)
    assert re.match(r"nearest in store 9: U\+.*, cosine .*, by 20 %$", last)


@pytest.mark.stores
def test_search_in_postgresql(trained: Path) -> None:
    text = run("search_in_postgresql.py", "--run", trained, "--store", postgres("postgresql").get_uri())
    assert len(re.findall(r"cosine .*, store 1$", text, re.MULTILINE)) == 3
    assert len(re.findall(r": [1-3] in stock$", text, re.MULTILINE)) == 3


@pytest.mark.stores
def test_search_in_milvus(trained: Path) -> None:
    text = run("search_in_milvus.py", "--run", trained, "--store", f"127.0.0.1:{milvus().listen_port}")
    assert len(re.findall(r"cosine .*, store 1$", text, re.MULTILINE)) == 3 and "vectors, by member: {(" in text


def test_progressive_download(trained: Path) -> None:
    text = run("progressive_download.py", "--run", trained)
    sizes = [int(size.replace(",", "")) for size in re.findall(r"([\d,]+) bytes", text)]
    whole, first, more = sizes
    assert first + more == (trained / "examples" / "device.prun").stat().st_size < whole
    assert (
        (trained / "examples" / "family.prun")
        .read_bytes()
        .startswith((trained / "examples" / "device.prun").read_bytes())
    )
    assert "capacity=0.1," in text and "capacity=0.4," in text


def test_export_to_onnx(trained: Path) -> None:
    assert re.search(r"largest difference from torch: \d\.\de-\d\d", run("export_to_onnx.py", "--run", trained))
