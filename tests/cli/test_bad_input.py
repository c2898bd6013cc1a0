"""What a user can get wrong ends in one line on stderr, exit code 2, and no traceback."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from prunnet.cli.command import main

TRAIN = ["train", "--out", "runs/a", "--set", "data_options.classes=6", "--set", "data_options.images_per_class=4"]
BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    (folder / "binary.yaml").write_bytes(bytes(range(128, 256)))
    (folder / "bomb.yaml").write_text(BOMB)
    (folder / "list.yaml").write_text("- 1\n")
    (folder / "[/b]x").mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*TRAIN, "--set", "seed=-1"], "seed: Input should be greater than or equal to 0; found -1"),
        ([*TRAIN, "--set", "device=mps"], "there is no device 'mps'"),
        ([*TRAIN, "--set", "device=meta"], "there is no device 'meta'"),
        ([*TRAIN, "--set", "backbone_options.nonsense=1"], "timm cannot make resnet18 with the options"),
        ([*TRAIN, "--set", "augmentation.nonsense=1"], "augmentation has no option 'nonsense'"),
        ([*TRAIN, "--set", "accumulate=32"], "micro-batches of one image"),
        ([*TRAIN, "--set", "metric=recall"], "unknown metric 'recall'"),
        ([*TRAIN, "--config", "binary.yaml"], "binary.yaml cannot be read as text"),
        ([*TRAIN, "--config", "bomb.yaml"], "settings have no use for aliases"),
        ([*TRAIN, "--config", "list.yaml"], "must hold settings"),
        ([*TRAIN, "--pretrained", "--set", "weights=w.safetensors"], "choose one"),
        (["unpack", "http://[x"], "http://[x cannot be read"),
        (["evaluate", "[/b]x", "--data", "glyphs"], "[/b]x is no family folder"),
        (["info", "[/b]x"], "[/b]x is no family folder"),
        (["prune", "nowhere/[/b]x", "--capacity", ".2"], "nowhere/[/b]x does not exist"),
    ],
)
def test_one_line_and_no_traceback(
    folder: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["prunnet", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    stderr = capsys.readouterr().err
    assert ended.value.code == 2, stderr
    assert stderr.startswith("prunnet: ") and stderr.count("\n") == 1 and message in stderr
    assert not (folder / "runs" / "a" / "config.yaml").exists()


def test_a_name_that_is_no_text_is_shown_as_far_as_it_can_be(folder: Path) -> None:
    command = [sys.executable, "-m", "prunnet", "info", b"nowhere/\xff\xfe"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 2 and "does not exist" in done.stderr and "Traceback" not in done.stderr


class Dripping(BaseHTTPRequestHandler):
    """Promises a thousand bytes and sends one now and then."""

    def do_GET(self) -> None:
        self.send_response(206)
        self.send_header("Content-Range", "bytes 0-43/1000")
        self.send_header("Content-Length", "44")
        self.end_headers()
        for _ in range(44):
            if self.server.stopped.wait(0.05):  # type: ignore[attr-defined]
                return
            self.wfile.write(b"x")

    def log_message(self, *_: object) -> None:
        """Nothing is said."""


def test_a_server_that_drips_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    import prunnet
    from prunnet.errors import FamilyError
    from prunnet.storage.prun import source

    monkeypatch.setattr(source, "TIMEOUT", 0.3)
    monkeypatch.setattr(source, "LEAST_RATE", 1e6)
    server = HTTPServer(("127.0.0.1", 0), Dripping)
    server.stopped = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(FamilyError, match=r"cannot be read.*too slow"):
            prunnet.unpack(f"http://127.0.0.1:{server.server_port}/a.prun")
    finally:
        server.stopped.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()
        server.server_close()
