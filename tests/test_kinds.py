"""Every command on every kind of stored network: it works, or it is refused by name in one line."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import prunnet
from prunnet.cli.command import app
from prunnet.errors import CapacityError, PrunNetError

TINY: dict[str, Any] = {
    "backbone": "resnet18",
    "backbone_options": {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]},
    "input_size": (1, 16, 16),
    "embedding_dim": 16,
    "data_options": {"classes": 12, "images_per_class": 8, "size": 16},
    "batch_size": 16,
    "epochs": 1,
    "align_batches": 4,
}
TRAININGS: dict[str, dict[str, Any]] = {
    "prunnet": {"capacities": (0.5, 0.2)},
    "dense": {"method": "dense"},
    "filters": {"selection": "filters", "capacities": (0.5,)},
    "score_maps": {"selection": "maps", "capacities": (0.5, 0.2)},
    "joint": {"method": "joint", "capacities": (0.5, 0.2)},
    "independent": {"method": "independent", "capacities": (0.2,)},
    "switchnet": {"method": "switchnet", "capacities": (0.5, 0.2)},
    "sfsc": {"method": "sfsc", "capacities": (0.5,)},
    "sspl": {"method": "sspl", "capacities": (0.1,), "old": "prunnet", "codewords": 8},
    "bct": {"method": "bct", "capacities": (0.1,), "old": "joint"},
}
RUNS = tuple(TRAININGS)
KINDS = (*RUNS, "family folder", "members folder", "subnetwork folder", ".prun")
COMPATIBLE = ("prunnet", "dense", "family folder")  # one network whose subnetworks are nested connections


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of network under its name, some as a run, some as the folder or file made from one."""
    root = tmp_path_factory.mktemp("kinds")
    for name, settings in TRAININGS.items():
        told = {**TINY, **settings}
        if "old" in told:
            told["old"] = str(root / told["old"])
        prunnet.train(out=root / name, quiet=True, **told)
    net = prunnet.load(root / "prunnet")
    net.save(root / "family folder")
    prunnet.load(root / "joint").save(root / "members folder")
    net.subnetwork(0.2).save(root / "subnetwork folder")
    prunnet.pack(net, root / ".prun", grid=(0.2, 0.5, 1.0))
    return root


def call(*arguments: object) -> str:
    """What a command prints; its error where it is refused."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("kind", KINDS)
def test_load_gives_a_family_that_answers_everything(stored: Path, kind: str) -> None:
    family = prunnet.load(stored / kind)
    assert isinstance(family, prunnet.Family)
    images = prunnet.load_data("glyphs", **TINY["data_options"])
    pictures = [images.query.image(index) for index in range(3)]
    capacities = family.available((1.0, *family.capacities))
    assert capacities and family.embedding_dim == 16 and family.preprocessing.input_size == (1, 16, 16)
    for capacity in capacities:
        alone, together = family.subnetwork(capacity).encode(pictures), family.encode(pictures, capacity)
        assert alone.family_id == together.family_id and alone.family_id.startswith(family.family_id)
        assert alone.capacity == together.capacity == capacity
        assert (alone.vectors - together.vectors).abs().max() < 1e-5
        assert prunnet.load(stored / kind, capacity=capacity).capacities in ((), (capacity,))
    if not family.available((0.0312,)):
        with pytest.raises(CapacityError, match=r"3\.12 %"):
            family.subnetwork(0.0312)
    assert family.available((0.0312,)) == ((0.0312,) if kind in (*COMPATIBLE, "sspl") else ())  # sspl extends prunnet


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate(stored: Path, kind: str, tmp_path: Path) -> None:
    own = () if kind in RUNS else ("--data", "glyphs")
    text = call("evaluate", stored / kind, *own, "--out", tmp_path / "evaluation")
    assert "φq" in text and (tmp_path / "evaluation" / "matrix.json").is_file()


@pytest.mark.parametrize("kind", KINDS)
def test_info_and_bench(stored: Path, kind: str) -> None:
    family = prunnet.load(stored / kind)
    text = call("info", stored / kind)
    assert family.family_id in text.replace("\n", "") and family.kind in " ".join(text.split())
    smallest = prunnet.info(family).costs[-1]
    fitting = prunnet.capacity_for(family, max_bytes=smallest.bytes)
    assert prunnet.cost(family, fitting).bytes <= smallest.bytes
    timings = prunnet.bench(family, runtimes=("torch",), rounds=1, batch_size=1)
    assert timings[0].ratio == 1.0 and len(timings) >= len(family.available((1.0, *family.capacities)))
    assert "latency" in call("bench", stored / kind, "--runtimes", "torch", "--rounds", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_prune_and_export(stored: Path, kind: str, tmp_path: Path) -> None:
    family = prunnet.load(stored / kind)
    smallest = min(family.available((1.0, *family.capacities)))
    call("prune", stored / kind, "--capacity", smallest, "--out", tmp_path / "small")
    assert prunnet.load(tmp_path / "small").capacities == (() if smallest == 1.0 else (smallest,))
    call("export", stored / kind, tmp_path / "small.onnx", "--capacity", smallest)
    assert prunnet.load_exported(tmp_path / "small.onnx").capacity == smallest
    budget = prunnet.cost(family, smallest).bytes
    within = prunnet.prune(family, max_bytes=budget, loader=[family.preprocessing.batch(pictures())])
    assert within.capacity <= max(smallest, 0.999)


def pictures() -> list[Any]:
    images = prunnet.load_data("glyphs", **TINY["data_options"]).train
    assert images is not None
    return [images.image(index) for index in range(8)]


@pytest.mark.parametrize("kind", KINDS)
def test_pack(stored: Path, kind: str, tmp_path: Path) -> None:
    out = tmp_path / "family.prun"
    if kind in COMPATIBLE:
        call("pack", stored / kind, "--out", out, "--data", "glyphs", "--grid", ".2,1", "--adapt-batches", 2)
        assert prunnet.load(out, capacity=0.2).capacities == (0.2,)
    else:
        with pytest.raises(PrunNetError, match=r"a \.prun holds nested connections"):
            call("pack", stored / kind, "--out", out)
        assert not out.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_report(stored: Path, kind: str, tmp_path: Path) -> None:
    if kind in RUNS:
        call("report", stored / kind, "--out", tmp_path / "report.html")
        assert "</html>" in (tmp_path / "report.html").read_text()
    else:
        with pytest.raises(PrunNetError, match="is no run"):
            call("report", stored / kind, "--out", tmp_path / "report.html")


@pytest.mark.parametrize("kind", ["prunnet", "joint"])
def test_later_evaluations_leave_the_runs_own_result_alone(stored: Path, kind: str) -> None:
    own = {file.name: file.read_bytes() for file in (stored / kind / "evaluation").iterdir()}
    for name in ("glyphs-Recall@1", "glyphs-Recall@1-2"):
        call("evaluate", stored / kind, "--metric", "Recall@1", "--capacities", "1,.2")
        assert (stored / kind / "evaluations" / name / "matrix.json").is_file()
    assert {file.name: file.read_bytes() for file in (stored / kind / "evaluation").iterdir()} == own
    assert prunnet.train(out=stored / kind, resume=True, quiet=True).matrix.metric == "mAP"


def test_a_refusal_is_one_line_and_no_traceback(stored: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "prunnet", "pack", str(stored / "joint"), "--out", str(tmp_path / "a.prun")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "this is separate members" in done.stderr
