import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import prunnet
from prunnet.demo import BUDGET, NEVER_TRAINED, demo_settings, run_demo
from prunnet.deploy.export import load_exported
from prunnet.errors import PrunNetError
from prunnet.evaluation import CompatibilityMatrix
from prunnet.storage.prun import unpack
from prunnet.storage.subnetwork_folder import load_subnetwork
from prunnet.training.trainer import Trainer

# the demo's own network, on a handful of characters
TINY: dict[str, Any] = {
    **demo_settings(quick=True, seed=0),
    "data_options": {"classes": 12, "images_per_class": 8, "size": 32},
    "batch_size": 16,
    "epochs": 1,
}
STAGES = ("data", "train", "matrix", "prune", "pack", "export", "search", "index", "report")
MADE = ("13-percent/model.safetensors", "13-percent.onnx", "family.prun", f"within-{BUDGET}.prun")


def demo(out: Path, settings: dict[str, Any] = TINY) -> str:
    console = Console(file=io.StringIO(), width=200)
    assert run_demo(out, settings, console) == out / "report.html"
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("demo") / "out"
    return out, demo(out)


def test_every_stage_says_what_it_does(finished: tuple[Path, str]) -> None:
    text = finished[1]
    for number, stage in enumerate(STAGES, start=1):
        assert f"\n{number}  {stage}  " in text
    assert "asked by 13 % of family.prun: mAP " in text and "--model" in text and "--capacity 0.13 -k 5 --open" in text
    assert f"prunnet serve {finished[0] / 'gallery'} --open" in text
    assert "13 %, never trained: " in text and "of what the dense network reaches" in text


def test_all_that_is_made_belongs_to_one_family(finished: tuple[Path, str]) -> None:
    out, _ = finished
    net = prunnet.load(out / "run" / "model")
    assert NEVER_TRAINED not in net.capacities
    small = load_subnetwork(out / "13-percent")
    within = load_subnetwork(out / f"within-{BUDGET}")
    made = (small, within, load_exported(out / "13-percent.onnx"), unpack(out / "family.prun", NEVER_TRAINED))
    assert {network.family_id for network in made} == {net.family_id}
    assert small.adapted and within.adapted
    assert within.capacity == prunnet.capacity_for(net, max_bytes=BUDGET)
    assert (out / f"within-{BUDGET}.prun").stat().st_size <= 200_000
    gallery = prunnet.VectorIndex.open(out / "gallery")
    assert gallery.family_id == net.family_id and len(gallery) == len(prunnet.Run(out / "run").load_data().gallery)
    report = (out / "report.html").read_text()
    assert "family.prun" in report and "13-percent.onnx" in report


def test_a_second_call_repeats_nothing_that_is_done(finished: tuple[Path, str]) -> None:
    out, _ = finished
    files = [out / name for name in (*MADE, "run/model/model.safetensors", "run/evaluation/matrix.json")]
    before = [(file.stat().st_mtime_ns, file.read_bytes()) for file in files]
    text = demo(out)
    assert [(file.stat().st_mtime_ns, file.read_bytes()) for file in files] == before
    assert text.count("done before") == 3


def test_other_settings_need_another_folder(finished: tuple[Path, str]) -> None:
    with pytest.raises(PrunNetError, match="holds a demo with other settings; choose another folder with --out"):
        demo(finished[0], {**TINY, "seed": 1})


@pytest.mark.slow
def test_a_stopped_demo_goes_on(finished: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Trainer._optimise

    def interrupt(self: Trainer, batch: Any) -> dict[str, Any]:
        if self.step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_optimise", interrupt)
        with pytest.raises(PrunNetError, match="stopped, and saved what was trained; the same command goes on"):
            demo(tmp_path)
    demo(tmp_path)
    again, whole = (CompatibilityMatrix.from_json(f / "run/evaluation/matrix.json") for f in (tmp_path, finished[0]))
    assert (again.values == whole.values).all()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "prunnet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"})


@pytest.mark.slow
def test_quick_runs_from_the_command_line(tmp_path: Path) -> None:
    done = run("demo", "--quick", "--out", str(tmp_path / "demo"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "report.html").is_file() and "report.html in a browser." in done.stdout
    matrix = CompatibilityMatrix.from_json(tmp_path / "demo" / "run" / "evaluation" / "matrix.json")
    assert matrix.at(1.0, 1.0) > 3 / 30  # of 30 unseen characters; chance is one in thirty
