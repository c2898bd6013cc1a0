"""A run folder says what it is and holds; only one process writes it."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.training.conftest import GLYPHS, TINY

import prunnet
from prunnet.errors import BusyError, ConfigError, EvaluationError, PrunNetError
from prunnet.runs import Run, resolve
from prunnet.runs.run import new_folder
from prunnet.runs.settings import to_yaml

SETTING = {**TINY, "data_options": GLYPHS, "epochs": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return prunnet.train(out=tmp_path_factory.mktemp("runs") / "a", quiet=True, **SETTING)


def test_what_train_returns_is_what_the_folder_holds(trained: Run) -> None:
    again = Run(trained.folder)
    assert again.state == "done" and again.config == trained.config
    assert again.network.family_id == trained.network.family_id == prunnet.load(trained.folder).family_id
    assert again.matrix.values.tolist() == trained.matrix.values.tolist()
    assert [row["step"] for row in again.steps] == list(range(1, 1 + len(again.steps)))
    assert again.load_data().train.classes == GLYPHS["classes"] * 2 // 3
    assert again.environment["packages"]["torch"]


def test_the_card_shows_the_measured_matrix(trained: Run) -> None:
    card = (trained.model / "README.md").read_text()
    assert trained.matrix.to_markdown().strip() in card and "| 20 % |" in card.split("## Costs")[1]


def test_a_folder_says_what_it_is_not(tmp_path: Path) -> None:
    run = Run(tmp_path / "nothing")
    assert run.state == "missing" and not run.exists and run.records == [] and run.environment == {}
    for ask in (lambda: run.config, lambda: run.network, lambda: run.resumed_config({})):
        with pytest.raises(ConfigError, match="nothing"):
            ask()
    with pytest.raises(EvaluationError, match=r"matrix\.json"):
        _ = run.matrix
    with pytest.raises(PrunNetError, match="is no run: train it first"):
        run.require_finished()
    run.diverge("the loss is nan")
    assert run.state == "diverged" and run.divergence == "the loss is nan"


def test_later_evaluations_have_names_of_their_own(tmp_path: Path) -> None:
    for name in ("glyphs-mAP", "glyphs-mAP-2", "glyphs-mAP-3"):
        folder = new_folder(tmp_path, "glyphs-mAP")
        assert folder.name == name
        folder.mkdir()


def test_a_second_process_is_refused_in_one_line(tmp_path: Path) -> None:
    run = Run(tmp_path / "a")
    script = f"import prunnet; prunnet.train(out={str(run.folder)!r}, quiet=True)"
    with run.lock():
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 1 and "is being written by another process" in done.stderr.splitlines()[-1]
        with pytest.raises(BusyError):
            prunnet.train(out=run.folder, quiet=True)
    assert not run.exists and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "recall"}, "unknown metric 'recall'"),
        ({"evaluate_capacities": (1.0, 20)}, "for 20 % write 0.2"),
        ({"batch_size": 4096}, "images do not fill one batch of 4096"),
        ({"weights": "w.safetensors", "pretrained": True}, "choose one"),
    ],
)
def test_a_refused_start_leaves_nothing(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(PrunNetError, match=message):
        prunnet.train(out=tmp_path / "a", quiet=True, **{**SETTING, **settings})
    assert not Run(tmp_path / "a").exists
    assert prunnet.train(out=tmp_path / "a", quiet=True, **SETTING).state == "done"


def test_a_resumed_run_may_be_judged_otherwise(trained: Run, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(trained.folder, tmp_path / "a")
    judged = prunnet.train(out=tmp_path / "a", resume=True, quiet=True, metric="Recall@1", evaluate_capacities=(1, 0.3))
    assert judged.matrix.metric == "Recall@1" and [m.capacity for m in judged.matrix.models] == [1.0, 0.3]
    assert Run(tmp_path / "a").config.metric == "Recall@1"
    assert judged.network.family_id == trained.network.family_id


def test_a_run_is_resumed_by_the_settings_it_was_started_with(tmp_path: Path) -> None:
    settings = {**SETTING, "data_options": {**GLYPHS, "every": (7, 4)}}
    run = Run(tmp_path / "a")
    run.folder.mkdir()
    run.config_file.write_text(to_yaml(resolve(settings)))
    assert run.resumed_config(settings).data_options["every"] == (7, 4)
    with pytest.raises(ConfigError, match="started with data_options="):
        run.resumed_config({**SETTING, "data_options": {**GLYPHS, "every": (7, 5)}})
