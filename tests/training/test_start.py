import json
import os
import random
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.training.conftest import GLYPHS, TINY

import prunnet
from prunnet.errors import ConfigError, PrunNetError, TrainingError
from prunnet.runs import Run
from prunnet.storage import load as load_family
from prunnet.training import train
from prunnet.training.checkpoint import latest_checkpoint
from prunnet.training.trainer import Trainer


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model" / "model.safetensors")


def equal(first: Path, second: Path) -> bool:
    a, b = weights_of(first), weights_of(second)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def finished(glyphs, tmp_path_factory) -> Path:
    """One uninterrupted run, to compare others with."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    train(None, glyphs, out=folder, quiet=True, **TINY)
    return folder


def test_run_folder_holds_what_the_design_says(finished: Path) -> None:
    expected = {
        "config.yaml", "environment.json", "metrics.jsonl", "model/model.safetensors", "model/config.json",
        "model/README.md", "evaluation/matrix.csv", "evaluation/matrix.json", "evaluation/matrix.png",
        "evaluation/curve.png", "plots/loss.png", "plots/conflicts.png", "plots/cosine.png",
    }  # fmt: skip
    assert all((finished / name).is_file() for name in expected)
    rows = Run(finished).steps
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert set(rows[0]["loss"]) == {"1", "0.5", "0.2"} and 0 <= rows[0]["conflicts"] <= 1
    assert set(rows[0]["cosine"]) == {"0.5", "0.2"} and set(rows[0]["norm"]) == set(rows[0]["loss"])
    assert rows[0]["scores"].keys() == {"conflicts", "first_layer_conflicts", "cosine", "norm", "sum_cosine"}
    assert rows[0]["scores"]["norm"].keys() == rows[0]["norm"].keys() and rows[0]["scores"]["norm"] != rows[0]["norm"]
    assert json.loads((finished / "environment.json").read_text())["packages"]["torch"]


def test_it_is_recorded_how_much_of_each_mask_is_still_its_start(glyphs, finished: Path, tmp_path) -> None:
    starts = [row["start"] for row in Run(finished).records if "start" in row]
    assert len(starts) == TINY["epochs"] and all(start.keys() == {"0.5", "0.2"} for start in starts)
    assert all(0.2 < share < 1 for share in starts[-1].values())
    frozen = train(None, glyphs, out=tmp_path / "frozen", quiet=True, **{**TINY, "frozen_scores": True})
    assert [row["start"] for row in frozen.records if "start" in row][-1] == {"0.5": 1.0, "0.2": 1.0}


def test_the_family_is_loaded_and_adapted(finished: Path) -> None:
    net = prunnet.load(finished / "model")
    assert net.capacities == (0.5, 0.2) and set(net.statistics) == {0.5, 0.2}
    assert not net.training


def test_the_same_settings_give_the_same_bits(glyphs, finished: Path, tmp_path) -> None:
    run = train(None, glyphs, out=tmp_path / "again", quiet=True, **TINY)
    assert equal(finished, tmp_path / "again")
    assert run.network.family_id != prunnet.load(finished / "model").family_id


def test_a_stopped_run_resumes_bit_equal(glyphs, finished: Path, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "stopped"
    original = Trainer._optimise

    def stop_at_third(self: Trainer, batch: Any) -> dict[str, Any]:
        if self.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_optimise", stop_at_third)
        with pytest.raises(PrunNetError, match="stopped after step 3 and saved; continue with --resume"):
            train(None, glyphs, out=folder, quiet=True, **TINY)
    train(None, glyphs, out=folder, resume=True, quiet=True)
    assert equal(finished, folder)
    assert [row["step"] for row in Run(folder).records] == [row["step"] for row in Run(finished).records]


SCRIPT = textwrap.dedent(
    """
    import json, os, sys
    from prunnet.data import load_data
    from prunnet.training import train

    settings, glyphs, folder, resume, die_at = json.loads(sys.argv[1])
    if die_at:
        from prunnet.training.trainer import Trainer
        original = Trainer._optimise

        def optimise(self, batch):
            if self.step == die_at:
                os.kill(os.getpid(), 9)
            return original(self, batch)

        Trainer._optimise = optimise
    train(None, load_data("glyphs", **glyphs), out=folder, resume=resume, quiet=True, **({} if resume else settings))
    """
)


def test_a_killed_run_resumes_bit_equal(finished: Path, tmp_path) -> None:
    folder, step = tmp_path / "killed", random.randrange(1, 7)
    settings = {**TINY, "checkpoint_seconds": 0}
    for resume, die_at, code in ((False, step, -signal.SIGKILL), (True, 0, 0)):
        arguments = json.dumps([settings, GLYPHS, str(folder), resume, die_at])
        assert subprocess.run([sys.executable, "-c", SCRIPT, arguments]).returncode == code, f"killed at step {step}"
    assert equal(finished, folder)


def train_on_ranks(ranks: int, folder: Path, settings: dict[str, Any], before: str = "") -> None:
    """One training by several processes, each of which first does what `before` says."""
    script, arguments = folder.with_suffix(".py"), folder.with_suffix(".json")
    read = SCRIPT.replace("json.loads(sys.argv[1])", "json.loads(open(sys.argv[1]).read())")
    script.write_text(read.replace("if die_at:", f"{before}\nif die_at:"))
    arguments.write_text(json.dumps([settings, GLYPHS, str(folder), False, 0]))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*launcher, str(script), str(arguments)]
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=240)


def test_two_ranks_equal_one_with_the_double_batch(tmp_path) -> None:
    """With batch norm frozen, half a batch is normalised like the whole."""
    for ranks in (1, 2):
        train_on_ranks(ranks, tmp_path / str(ranks), {**TINY, "batchnorm": "frozen", "epochs": 1, "lr": 0.02})
    one, two = weights_of(tmp_path / "1"), weights_of(tmp_path / "2")
    for name in one:
        if not name.startswith("batchnorm"):
            torch.testing.assert_close(one[name], two[name], atol=1e-4, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


def test_ranks_save_together_as_soon_as_one_is_late(tmp_path) -> None:
    late = "settings['checkpoint_seconds'] = 1e9 * int(os.environ['RANK'])"
    train_on_ranks(2, tmp_path / "run", {**TINY, "epochs": 1}, before=late)
    assert Run(tmp_path / "run").state == "done"


def test_a_finished_run_is_returned_and_an_existing_one_not_overwritten(glyphs, finished: Path) -> None:
    with pytest.raises(ConfigError, match="already holds a run"):
        train(None, glyphs, out=finished, quiet=True, **TINY)
    before = weights_of(finished)
    run = train(None, glyphs, out=finished, resume=True, quiet=True)
    assert run.matrix.at(1.0, 1.0) > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights_of(finished).items())


def test_a_resumed_run_keeps_its_settings(glyphs, finished: Path, tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"was started with lr=0\.1; a resumed run cannot change it"):
        train(None, glyphs, out=finished, resume=True, quiet=True, lr=0.2)
    with pytest.raises(ConfigError, match="holds no run to resume"):
        train(None, glyphs, out=tmp_path / "nowhere", resume=True)


def test_divergence_stops_with_the_step_the_capacity_and_the_batch(glyphs, tmp_path) -> None:
    torch.manual_seed(0)
    net = prunnet.convert(
        prunnet.create_backbone(TINY["backbone"], **TINY["backbone_options"]),
        16,
        preprocessing=prunnet.Preprocessing(TINY["input_size"]),
    )
    with torch.no_grad():
        net.head.linear.weight.fill_(float("nan"))
    settings = {key: TINY[key] for key in ("capacities", "batch_size", "epochs", "lr")}
    with pytest.raises(TrainingError, match="step 1: the loss at capacity 1 is nan; the batch is in ") as caught:
        train(net, glyphs, out=tmp_path / "run", quiet=True, **settings)
    file = str(caught.value).split("the batch is in ")[1].split(";")[0]
    assert load_file(file)["images"].shape == (16, 1, 16, 16)


def test_a_full_disk_leaves_the_last_checkpoint_valid(glyphs, tmp_path, monkeypatch) -> None:
    from prunnet.training import checkpoint

    folder, saves = tmp_path / "run", 0
    original = checkpoint.save_tensors

    def full_at_third(tensors: Any, path: Any, metadata: Any) -> None:
        nonlocal saves
        saves += 1
        if saves == 3:
            Path(path).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        original(tensors, path, metadata)

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_tensors", full_at_third)
        with pytest.raises(PrunNetError, match=r"step 3 could not be saved \(.*No space left.*still valid"):
            train(None, glyphs, out=folder, quiet=True, **{**TINY, "checkpoint_seconds": 0})
    newest = latest_checkpoint(folder / "checkpoint")
    assert newest is not None and newest.name == "step-00000002"
    train(None, glyphs, out=folder, resume=True, quiet=True)


def write_images(folder: Path) -> None:
    from PIL import Image

    generator = random.Random(0)
    for label in ("a", "b", "c", "d"):
        for index in range(8):
            target = folder / label / f"{index}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            shade = [generator.randrange(256) for _ in range(16 * 16)]
            image = Image.new("L", (16, 16))
            image.putdata(shade)
            image.save(target)


def test_unreadable_images_are_named_and_skipped_or_stop_a_strict_run(tmp_path) -> None:
    write_images(tmp_path / "photos")
    settings = {**TINY, "cache": False, "batch_size": 4, "epochs": 1, "data_options": {}}
    data = prunnet.load_data(str(tmp_path / "photos"))
    victim = data.train.path(0)
    victim.write_bytes(b"not a picture")
    run = train(None, data, out=tmp_path / "run", quiet=True, **settings)
    assert victim.name in (run.folder / "unreadable.txt").read_text()
    with pytest.raises(PrunNetError, match=victim.name):
        train(None, data, out=tmp_path / "strict", quiet=True, strict=True, **settings)


@pytest.mark.parametrize("part", ["query", "gallery"])
def test_an_unreadable_query_or_answer_is_left_out_or_refused_before_the_first_step(part: str, tmp_path) -> None:
    for split in ("train", "query", "gallery"):
        write_images(tmp_path / "photos" / split)
    settings = {**TINY, "cache": False, "batch_size": 4, "epochs": 1, "data_options": {}}
    data = prunnet.load_data(str(tmp_path / "photos"))
    victim = getattr(data, part).path(0)
    victim.write_bytes(b"not a picture")
    run = train(None, data, out=tmp_path / "run", quiet=True, **settings)
    left_out = run.matrix.unreadable_queries if part == "query" else run.matrix.unreadable_gallery
    assert len(left_out) == 1 and run.matrix.queries == 32 - (part == "query")
    with pytest.raises(PrunNetError, match=victim.name):
        train(None, data, out=tmp_path / "strict", quiet=True, strict=True, **settings)
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"capacities": "any", "distillation": 1.0},
        # 64 px: torch's bf16 convolution leaves garbage in the gradient of a strided 3×3 filter on a 1×1 input
        {
            "optimiser": "adamw",
            "lr": 1e-3,
            "precision": "bf16",
            "clip": 1.0,
            "warmup_epochs": 1,
            "input_size": (1, 64, 64),
        },
        {"accumulate": 2, "integrator": "mean", "shared": "mean"},
        {"classes_per_batch": 4, "images_per_class": 4, "loss": "contrastive"},
        {"selection": "maps", "integrator": "pareto"},
        {"method": "dense", "evaluate_capacities": (1.0, 0.5)},
        {"evaluate_every": 1, "tensorboard": True, "rule": "released", "clip_passes": 100.0},
        {"precision": "fp16", "integrator": "pcgrad"},
        {"workers": 1, "loss": "arcface"},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_every_kind_of_run_reaches_its_end(glyphs, tmp_path, settings: dict[str, Any]) -> None:
    run = train(None, glyphs, out=tmp_path / "run", quiet=True, **{**TINY, **settings})
    assert run.matrix.values.shape[0] >= 2
    assert (tmp_path / "run/best").is_dir() == ("evaluate_every" in settings)
    assert load_family(tmp_path / "run/model").family_id == run.network.family_id
    assert (tmp_path / "run/tensorboard").is_dir() == ("tensorboard" in settings)


@pytest.mark.filterwarnings("ignore::prunnet.NotAdaptedWarning")
def test_training_improves_retrieval_and_the_small_member_retrieves(tmp_path) -> None:
    data = prunnet.load_data("glyphs", classes=60, images_per_class=16, size=24)
    settings = {**TINY, "input_size": (1, 24, 24), "epochs": 15, "batch_size": 32, "lr": 0.2, "weight_decay": 1e-4}
    settings["backbone_options"] = {**TINY["backbone_options"], "channels": [16, 16, 32, 32]}
    run = train(None, data, out=tmp_path / "run", quiet=True, **settings)
    torch.manual_seed(0)
    fresh = prunnet.convert(
        prunnet.create_backbone("resnet18", **settings["backbone_options"]),
        16,
        preprocessing=run.network.preprocessing,
    )
    start = prunnet.evaluate(fresh, data, (1.0, 0.2))
    assert run.matrix.at(1.0, 1.0) > 1.5 * start.at(1.0, 1.0)
    assert run.matrix.at(0.2, 1.0) > 1.5 * start.at(0.2, 1.0)
