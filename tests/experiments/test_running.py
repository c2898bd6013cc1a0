import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from tests.experiments.conftest import RATES, ROWS, SEEDS, SUITE, TINY, only

from prunnet.errors import PrunNetError, SuiteError
from prunnet.evaluation import CompatibilityMatrix, Model
from prunnet.experiments import Row, compare
from prunnet.experiments.comparison import TUNING_SEEDS, Comparison, run_all, tuning_score
from prunnet.experiments.jobs import Job, held, sweep_held
from prunnet.experiments.results import gather
from prunnet.runs.settings import read_yaml
from prunnet.training.trainer import Trainer


def jobs_named(said: list[str]) -> list[str]:
    return [match[1] for line in said if (match := re.match(r"\[\d+/\d+\] (.+)", line))]


def test_every_run_is_made_once_in_an_order_that_can_work(finished: tuple[Path, list[str]]) -> None:
    out, said = finished
    made = jobs_named(said)
    assert len(made) == len(set(made)) == 18  # three rows: two rates with two seeds each, then two seeds
    tuned = {job.rsplit(" ", 1)[0] for job in made[:12]}
    assert tuned == {f"{name} lr {rate:g} seed" for name in ROWS for rate in RATES}
    assert all(job.endswith(" 0") for job in made[12:15]) and all(job.endswith(" 1") for job in made[15:])
    assert Job("added", 0.03, 100).run(out).state == "done"


def test_the_best_rate_of_the_tuning_seeds_is_used(finished: tuple[Path, list[str]]) -> None:
    out, _ = finished
    for name, row in ROWS.items():
        scores = {
            rate: sum(tuning_score(Job(name, rate, seed).run(out).matrix, row) for seed in TUNING_SEEDS)
            for rate in RATES
        }
        best = max(scores, key=scores.__getitem__)
        other = next(rate for rate in RATES if rate != best)
        assert all(Job(name, best, seed).run(out).state == "done" for seed in SEEDS)
        assert not any(Job(name, other, seed).run(out).exists for seed in SEEDS)


def test_an_added_row_stands_on_the_run_of_the_same_seed(finished: tuple[Path, list[str]]) -> None:
    out, _ = finished
    for run in out.glob("added/*/seed-*"):
        old = Path(read_yaml(run / "config.yaml")["old"])
        assert old.name == run.name and old.parent.parent == out / "prunnet-paper"


@pytest.mark.parametrize(
    ("setting", "same", "others"),
    [({}, "random", "magnitude"), ({"weights": "trained.safetensors"}, "magnitude", "random")],
)
def test_a_row_that_is_the_default_under_a_setting_is_trained_once(tmp_path, setting, same, others) -> None:
    said: list[str] = []
    compare("switches", out=tmp_path, say=said.append, dry_run=True, **{**TINY, **setting})
    rows = [line.split()[0] for line in said[-1].splitlines()]
    assert "default" in rows and f"default-{others}" in rows and f"default-{same}" not in rows
    with pytest.raises(SuiteError, match=f"switches has no row 'default-{same}'"):
        compare("switches", out=tmp_path, rows=[f"default-{same}"], **{**TINY, **setting})


def test_what_is_finished_is_not_run_again(finished: tuple[Path, list[str]]) -> None:
    said: list[str] = []
    run_all(Comparison(SUITE, finished[0], TINY, SEEDS, RATES), said.append)
    assert said == []
    compare(SUITE, out=finished[0], rates=RATES, seeds=SEEDS, say=said.append, dry_run=True, **TINY)
    assert "4/4 tuning runs" in said[-1] and "2/2 seeds" in said[-1] and "needs prunnet-paper" in said[-1]
    assert said[-1].endswith("0 runs left")
    compare(SUITE, out=finished[0], rates=RATES, seeds=(0, 1, 2), say=said.append, dry_run=True, **TINY)
    assert "3 runs left, about" in said[-1]


def test_suites_share_the_runs_of_their_rows(finished: tuple[Path, list[str]]) -> None:
    said: list[str] = []
    folder = compare(only("prunnet-paper"), out=finished[0], rates=RATES, seeds=SEEDS, say=said.append, **TINY)
    assert jobs_named(said) == [] and (folder / "table.md").is_file() and folder.name == "part"


def test_a_run_of_another_configuration_is_refused(finished: tuple[Path, list[str]]) -> None:
    with pytest.raises(SuiteError, match=r"seed-100 was trained with epochs=1, but epochs=2 is wanted"):
        compare(SUITE, out=finished[0], rates=RATES, seeds=SEEDS, **{**TINY, "epochs": 2})
    with pytest.raises(SuiteError, match="data_options="):
        compare(SUITE, out=finished[0], rates=RATES, seeds=SEEDS, report_only=True, **{**TINY, "data_options": {}})
    elsewhere = {**TINY, "workers": 3, "root": "elsewhere"}
    compare(SUITE, out=finished[0], rates=RATES, seeds=SEEDS, dry_run=True, say=len, **elsewhere)


def test_another_old_run_is_refused(finished: tuple[Path, list[str]], tmp_path) -> None:
    out, _ = finished
    (tmp_path / "prunnet-paper").symlink_to(out / "prunnet-paper")
    for run in out.glob("added/*/seed-*"):
        copy = tmp_path / run.relative_to(out)
        (copy / "evaluation").mkdir(parents=True)
        (copy / "evaluation" / "matrix.json").write_bytes((run / "evaluation" / "matrix.json").read_bytes())
        config = read_yaml(run / "config.yaml")
        (copy / "config.yaml").write_text(yaml.safe_dump({**config, "old": "runs/prunnet-paper/lr-9/seed-0"}))
    with pytest.raises(SuiteError, match=r"trained with old='prunnet-paper/lr-9/seed-0', but old='prunnet-paper/lr-0"):
        compare(only("added"), out=tmp_path, rates=RATES, seeds=SEEDS, dry_run=True, **TINY)


def test_an_interrupted_run_is_resumed(finished: tuple[Path, list[str]], tmp_path, monkeypatch) -> None:
    original = Trainer._optimise

    def stop_at_third(self: Trainer, batch):
        if self.step == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, batch)

    rate = Comparison(SUITE, finished[0], TINY, SEEDS, RATES).best_rate("prunnet-paper")
    assert rate is not None
    comparison = Comparison(only("prunnet-paper"), tmp_path, TINY, seeds=(0,), rates=(rate,))
    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "_optimise", stop_at_third)
        with pytest.raises(PrunNetError, match="seed 0 was stopped and saved"):
            run_all(comparison, len)
    job = Job("prunnet-paper", rate, 0)
    assert job.run(tmp_path).state == "started"
    run_all(replace(comparison, setting={**TINY, "checkpoint_seconds": 60.0}), len)  # as on another machine
    assert job.run(tmp_path).config.checkpoint_seconds == 60
    whole, resumed = (load_file(job.run(root).model / "model.safetensors") for root in (finished[0], tmp_path))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_rate_that_diverges_counts_as_worst(tmp_path) -> None:
    said: list[str] = []
    out = compare(only("prunnet-paper"), out=tmp_path, rates=(1e30, 0.03), seeds=(0,), say=said.append, **TINY)
    assert any("diverged: step" in line for line in said)
    assert jobs_named(said)[-1] == "prunnet-paper lr 0.03 seed 0"
    assert re.search(r"0\.03 \(0\.03: \d+\.\d, 1e\+30: diverged\)", (out / "table.md").read_text())
    comparison = Comparison(only("prunnet-paper"), tmp_path, TINY, (0,), (1e30, 1e31))
    run_all(comparison, said.append)
    assert comparison.failed("prunnet-paper") and comparison.ready() == []
    with pytest.raises(SuiteError, match="no finished run"):
        gather(comparison)


def test_rates_tuned_elsewhere(finished: tuple[Path, list[str]], tmp_path) -> None:
    said: list[str] = []
    elsewhere = Comparison(only("prunnet-paper"), tmp_path, {**TINY, "epochs": 2}, (5,), RATES, tuned_in=finished[0])
    assert elsewhere.total == 1
    run_all(elsewhere, said.append)
    best = Comparison(SUITE, finished[0], TINY, SEEDS, RATES).best_rate("prunnet-paper")
    assert jobs_named(said) == [f"prunnet-paper lr {best:g} seed 5"]
    setting: dict[str, Any] = {"seeds": (5,), "tuned_in": finished[0], **TINY, "epochs": 2}
    with pytest.raises(SuiteError, match=r"prunnet-paper has not been tuned over 0\.2, 0\.4 in"):
        compare(only("prunnet-paper"), out=tmp_path, rates=(0.2, 0.4), **setting, dry_run=True)
    with pytest.raises(SuiteError, match=r"prunnet-paper has not been tuned over 0\.03, 0\.1, 0\.3 in"):
        compare(only("prunnet-paper"), out=tmp_path, rates=(0.03, 0.1, 0.3), **setting)
    two = only("prunnet-paper", "separate")
    untuned = replace(two, definitions={**two.definitions, "separate": Row({"method": "joint"}, rate_scale=0.5)})
    compare(untuned, out=tmp_path, rates=RATES, rows=["prunnet-paper"], say=len, **setting)
    assert "Not finished: Separate." in (tmp_path / "part" / "table.md").read_text()


SCRIPT = textwrap.dedent(
    """
    import json, sys
    from prunnet.experiments import Row, Suite, compare

    out, settings = json.loads(sys.argv[1])
    rows = {"a": Row({"capacities": (0.2,)}), "b": Row({"method": "bct", "capacities": (0.1,)}, old="a")}
    suite = Suite("two", "Two", {"b": "B"}, ((1.0, 1.0),), reference="a", definitions=rows)
    compare(suite, out=out, rates=(0.03,), seeds=(0, 1), **settings)
    """
)


def test_two_processes_share_the_work(tmp_path) -> None:
    command = [sys.executable, "-c", SCRIPT, json.dumps([str(tmp_path), TINY])]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    made = jobs_named([line for lines in said for line in lines])
    assert len(made) == len(set(made)) == 4
    assert (tmp_path / "two" / "table.md").is_file()


def test_a_lock_is_held_by_one_and_freed_by_death(tmp_path) -> None:
    job = Job("a", 0.1, 0)
    with held(tmp_path, job) as first, held(tmp_path, job) as second:
        assert first and not second
    holder = textwrap.dedent(
        f"""
        import os
        from pathlib import Path
        from prunnet.experiments.jobs import Job, held
        with held(Path({str(tmp_path)!r}), Job("a", 0.1, 0)) as mine:
            assert mine
            os.kill(os.getpid(), 9)
        """
    )
    assert subprocess.run([sys.executable, "-c", holder]).returncode == -signal.SIGKILL
    lock = tmp_path / ".jobs" / ".a_0.1_0.lock"
    assert lock.exists()
    with held(tmp_path, Job("b", 0.1, 0)):
        sweep_held(tmp_path)
        assert not lock.exists() and (tmp_path / ".jobs" / ".b_0.1_0.lock").exists()
    with held(tmp_path, job) as again:
        assert again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"suite": "table9"}, "there is no suite 'table9'; there are table1, "),
        ({"suite": "table1", "preset": "imagenet"}, "there is no preset 'imagenet'"),
        ({"suite": "table1", "rows": ["mine"]}, "table1 has no row 'mine'; its rows are independent, "),
        ({"suite": "table1", "capacities": (0.5,)}, "capacities is what the rows of table1 are made of"),
        ({"suite": "table1", "lr": 0.1}, "lr is what the rows"),
        ({"suite": "table1", "epoch": 3}, "there is no setting 'epoch'"),
        ({"suite": "table1", "preset": "paper-veri776"}, "but paper-veri776 is made for 56.25 %, 25 %, 6.25 %"),
        ({"suite": "table1", "seeds": (0, 0)}, "seeds must be different whole numbers from 0 on"),
        ({"suite": "table1", "seeds": (-1,)}, "found -1"),
        ({"suite": "table1", "seeds": (100,)}, "and not 100 or 101, which tune"),
        ({"suite": "table1", "rates": (0.1, -1.0)}, "rates must be different positive numbers; found 0.1, -1"),
        ({"suite": "table1", "rates": (float("nan"),)}, "found nan"),
    ],
)
def test_what_cannot_be_compared_is_said_at_once(tmp_path, arguments, message: str) -> None:
    with pytest.raises(PrunNetError, match=re.escape(message)):
        compare(**arguments, out=tmp_path)
    assert not any(tmp_path.iterdir())


def test_rates_lie_around_the_settings_own(tmp_path) -> None:
    said: list[str] = []
    for preset, rates in (("omniglot-small", "0.03, 0.1, 0.3"), ("paper-cub200", "9e-06, 3e-05, 9e-05")):
        with pytest.raises(SuiteError, match=f"has not been tuned over {rates} in"):
            compare("table1", out=tmp_path, preset=preset, tuned_in=tmp_path, say=said.append)


def test_a_grid_of_rates_grows_beyond_its_end_while_that_is_best(tmp_path) -> None:
    def tried(rate: float, score: float | None, seeds: Sequence[int] = TUNING_SEEDS) -> None:
        for seed in seeds:
            folder = Job("prunnet-paper", rate, seed).run(tmp_path).folder
            folder.mkdir(parents=True)
            if score is None:
                (folder / "diverged.txt").write_text("at step 3")
                continue
            models = (Model(1.0, "f"), Model(0.2, "f"))
            matrix = CompatibilityMatrix(models, np.full((2, 2), score), "mAP", "glyphs", 8)
            (folder / "evaluation").mkdir()
            matrix.to_json(folder / "evaluation" / "matrix.json")

    comparison = Comparison(only("prunnet-paper"), tmp_path, TINY, SEEDS, (0.3, 0.03, 0.1))
    assert comparison.rates_of("prunnet-paper") == [0.03, 0.1, 0.3]  # nothing is known yet
    for rate, score in ((0.03, 0.2), (0.1, 0.3), (0.3, 0.4)):
        tried(rate, score)
    assert comparison.rates_of("prunnet-paper") == [0.03, 0.1, 0.3, 1.0] and comparison.seed_jobs("prunnet-paper") == []
    tried(1.0, 0.5)
    tried(3.0, 0.9, TUNING_SEEDS[:1])
    assert comparison.best_rate("prunnet-paper") is None  # the other seed is missing
    tried(3.0, None, TUNING_SEEDS[1:])
    assert comparison.rates_of("prunnet-paper") == [0.03, 0.1, 0.3, 1.0, 3.0]
    assert comparison.best_rate("prunnet-paper") == 1.0

    falling = Comparison(only("prunnet-paper"), tmp_path, TINY, SEEDS, (1, 3, 10))
    tried(10.0, 0.1)
    assert falling.rates_of("prunnet-paper") == [0.3, 1, 3, 10] and falling.best_rate("prunnet-paper") == 1
    rising = Comparison(only("prunnet-paper"), tmp_path, TINY, SEEDS, (100, 300, 1000))
    for rate in (100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0):
        tried(rate, rate / 1e5)
    assert rising.rates_of("prunnet-paper")[-1] == rising.best_rate("prunnet-paper") == 30000  # not for ever
    assert len(Comparison(only("prunnet-paper"), tmp_path, TINY, SEEDS, (100, 300)).tuning("prunnet-paper")) == 4
