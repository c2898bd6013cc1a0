"""What goes wrong first on a new machine ends in one line that helps; `--debug` shows the rest.

Every condition is real: an old Python, a torch that cannot be imported, a full disk, Ctrl-C.
"""

import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
TINY_RUN = [
    "train", "--epochs", "1", "--set", "batch_size=16", "--set", "input_size=[1, 16, 16]",
    "--set", "data_options={classes: 12, images_per_class: 8, size: 16}",
    "--set", "backbone_options={in_chans: 1, channels: [8, 8, 16, 16], layers: [1, 1, 1, 1]}",
]  # fmt: skip


def prunnet(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", **options.pop("env", {})}
    command = [sys.executable, "-m", "prunnet", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


def last_line(done: subprocess.CompletedProcess[str], code: int = 2) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What make reads before anything is installed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def make(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "demo", *arguments]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, env={**os.environ, **environment})


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make on the path")


@needs_make
def test_make_refuses_an_old_python_and_a_missing_one(clone: Path) -> None:
    old = clone / "python3.9"
    pretend = "import sys; sys.version_info = (3, 9, 2, 'final', 0); exec(sys.argv[2])"
    old.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}" "$@"\n')
    old.chmod(0o755)
    for python in (str(old), "no-such-python"):
        done = make(clone, f"PYTHON={python}")
        assert done.returncode != 0 and not (clone / ".venv").exists()
        assert "PrunNet needs Python 3.11 or newer: make PYTHON=/path/to/python demo" in done.stderr.splitlines()


def test_pip_refuses_an_old_python() -> None:
    assert metadata("prunnet")["Requires-Python"] == ">=3.11"


@needs_make
@pytest.mark.slow
def test_make_explains_an_installation_that_fails(clone: Path) -> None:
    done = make(clone, PIP_NO_INDEX="1", PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull)
    assert done.returncode != 0 and not (clone / ".venv" / ".installed").exists()
    assert "No matching distribution found" in done.stderr
    assert "there is no wheel for this Python: make clean, then make PYTHON=/path/to/python demo" in done.stderr


@pytest.mark.parametrize("reason", ["No module named 'torch'", "libtorch_cpu.so: cannot open shared object file"])
def test_a_torch_that_cannot_be_imported(tmp_path: Path, reason: str) -> None:
    (tmp_path / "torch.py").write_text(f"raise ImportError({reason!r})")
    arguments = ("demo", "--quick", "--out", str(tmp_path / "demo"))
    done = prunnet(*arguments, env={"PYTHONPATH": str(tmp_path)})
    assert len(done.stderr.splitlines()) == 1
    assert last_line(done).startswith(f"prunnet: {reason}; PrunNet is not completely installed: `make demo` or")
    assert "Traceback" in prunnet(*arguments, "--debug", env={"PYTHONPATH": str(tmp_path)}).stderr


def files_of_at_most(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_disk_that_fills_up_while_training(tmp_path: Path) -> None:
    arguments = (*TINY_RUN, "--out", str(tmp_path / "run"))
    line = last_line(prunnet(*arguments, preexec_fn=files_of_at_most(60_000)))
    assert "step 4 could not be saved" in line and line.endswith("; free some space, or choose another folder")
    line = last_line(prunnet(*arguments[:-1], str(tmp_path / "less"), preexec_fn=files_of_at_most(1_000)))
    assert line.endswith("File too large; free some space, or choose another folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_disk_too_small_for_the_demo(tmp_path: Path) -> None:
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("this machine mounts nothing, not even for root")
    try:
        line = last_line(prunnet("demo", "--out", str(tmp_path / "demo")))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert line.endswith(" free, the demo needs 50.00 MB; choose another --out")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "run")
    done = prunnet("demo", "--out", inside)
    assert last_line(done).endswith("cannot be written (Not a directory); choose another folder with --out")
    assert len(done.stderr.splitlines()) == 1
    assert last_line(prunnet(*TINY_RUN, "--out", inside)) == f"prunnet: {tmp_path / 'file'}: Not a directory"


def interruptible(command: list[str], **options: Any) -> "subprocess.Popen[Any]":
    """A process that heeds SIGINT, as in a terminal, even where these tests run in the background and ignore it."""
    return subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options)


def test_ctrl_c_while_training_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    terminal, its_end = pty.openpty()  # on a terminal progress is live, so that training is seen to have begun
    command = [sys.executable, "-m", "prunnet", "demo", "--quick", "--out", str(tmp_path / "demo")]
    environment = {**os.environ, "COLUMNS": "200", "TERM": "xterm"}
    with interruptible(command, stdout=subprocess.DEVNULL, stderr=its_end, env=environment) as demo:
        os.close(its_end)
        shown = b""
        while b"epoch 1/" not in shown:
            shown += os.read(terminal, 4096)
        demo.send_signal(signal.SIGINT)
        shown += rest_of(terminal)
    os.close(terminal)
    assert demo.returncode == 130
    assert (
        shown.decode()
        .splitlines()[-1]
        .endswith("prunnet: stopped, and saved what was trained; the same command goes on from there")
    )
    assert any((tmp_path / "demo" / "run" / "checkpoint").iterdir())


def rest_of(terminal: int) -> bytes:
    read = b""
    try:
        while piece := os.read(terminal, 4096):
            read += piece
    except OSError:  # so a terminal ends on Linux
        pass
    return read


def test_ctrl_c_in_another_stage_of_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "prunnet", "demo", "--quick", "--out", str(tmp_path / "demo")]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with interruptible(command, **pipes) as demo:
        assert demo.stdout is not None
        while not demo.stdout.readline().startswith("1  data"):
            pass
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate()
    assert demo.returncode == 130
    assert errors == "prunnet: stopped; the same command goes on after the last finished stage\n"


def test_ctrl_c_in_any_command_ends_in_one_line() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "prunnet", "bench", "resnet18", "--rounds", "9999"]
    with interruptible(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as bench:
        assert bench.stderr is not None
        while bench.stderr.readline().split("|")[-1].strip() != "torch":  # by then the command is at work
            pass
        bench.send_signal(signal.SIGINT)
        rest = [line for line in bench.stderr if not line.startswith("import time:")]
    assert bench.returncode == 130 and rest == ["prunnet: stopped\n"]
