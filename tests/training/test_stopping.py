"""A run that is stopped ends soon, whatever its step is doing, and goes on bit-equal."""

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from safetensors.torch import load_file
from tests.training.conftest import GLYPHS, TINY

import prunnet

SETTING = {**TINY, "data_options": GLYPHS, "checkpoint_seconds": 0}
BLOCKED = textwrap.dedent(
    """
    import json, sys, threading
    from prunnet.training import train
    from prunnet.training.trainer import Trainer

    original = Trainer._optimise

    def optimise(self, batch):
        if self.step == 2:
            print("in the third step", flush=True)
            threading.Event().wait()
        return original(self, batch)

    Trainer._optimise = optimise
    train(out=sys.argv[1], quiet=True, give_up_after=0.5, **json.loads(sys.argv[2]))
    """
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_step_that_never_ends_is_given_up(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BLOCKED, str(tmp_path / "a"), json.dumps(SETTING)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "in the third step\n"
        child.send_signal(number)
        _, stderr = child.communicate(timeout=60)
    assert child.returncode == 130 and "--resume goes on from the last checkpoint" in stderr
    resumed = prunnet.train(out=tmp_path / "a", resume=True, quiet=True)
    whole = prunnet.train(out=tmp_path / "b", quiet=True, **SETTING)
    first, second = (load_file(run.model / "model.safetensors") for run in (resumed, whole))
    assert all(tensor.equal(second[name]) for name, tensor in first.items())
