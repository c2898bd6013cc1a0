"""What subnetworks take in a browser, against the same network dense in onnxruntime-web and in LiteRT.js.

    python benchmarks/browser.py                    # some minutes
    python benchmarks/browser.py --rounds 5 resnet18

Needs Chromium and npm; onnxruntime-web and LiteRT.js are installed into `browser-benchmark` in `PRUNNET_CACHE`
(default: ~/.cache/prunnet). All runtimes take turns in one page, with one image and one thread, the page's own. Ratios
of medians to onnxruntime-web come last; those of the fastest turns, which other work on the machine disturbs least, are
printed before them. Weights are untrained; every layer keeps the same share, but stems of mobile networks and depthwise
convolutions are kept whole.

Before that a visitor comes to one empty page for each runtime and embeds one image with ResNet-18, prunnet at 10 % and
onnxruntime-web dense: what the server sends until then are the kilobytes (of 1,000 bytes) that are printed, without
compression other than the files' own. And every embedding of the page is compared with that of `prunnet.Runtime`.

LiteRT.js takes part in networks for which `--tflite FOLDER` has a file, `resnet18.tflite` and so on; `--write-tflite
FOLDER` writes them. That needs litert-torch, which asks for an older torch than prunnet's: it has its own environment.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import torch

import prunnet
from _networks import network
from _timing import show

CAPACITIES = (0.05, 0.1, 0.2)
NETWORKS = {"resnet18": "resnet18", "mobilenetv2_100": "mobilenetv2"}
PACKAGES = {"onnxruntime-web": "1.30.0", "@litertjs/core": "2.5.3"}
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm", ".html": "text/html"}
MODULE = Path(prunnet.__file__).parent / "runtime" / "js"
PAGE = b"""<!doctype html><meta charset=utf-8><body>
<script type=importmap>{"imports": {"@litertjs/wasm-utils": "/npm/@litertjs/wasm-utils/dist/index.js"}}</script>
<script type=module src=/page/browser.js></script>"""
OWN = ("page/", "files/task.json", "files/image.bin")  # of the benchmark, not of a runtime
LONGEST = 600  # seconds that a page may take
TOLERANCE = 1e-5  # of every number of an embedding


@dataclass
class Site:
    """Folders by the first part of an address, the bytes sent, and what the page told."""

    folders: dict[str, Path]
    sent: dict[str, int] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    """Serves a site, by ranges where the page asks for them."""

    site: Site

    def do_GET(self) -> None:
        address = self.path.partition("?")[0].lstrip("/")
        if address == "page.html":
            self._send(200, PAGE, ".html")
            return
        root, _, name = address.partition("/")
        file = self.site.folders.get(root, Path()) / name
        if root not in self.site.folders or not file.is_file():
            self.send_error(404)
            return
        content = file.read_bytes()
        status, extra = 200, {}
        if told := self.headers["Range"]:
            first, last = map(int, told.removeprefix("bytes=").split("-"))
            size, content = len(content), content[first : last + 1]
            status, extra = 206, {"Content-Range": f"bytes {first}-{first + len(content) - 1}/{size}"}
        self.site.sent[address] = self.site.sent.get(address, 0) + len(content)
        self._send(status, content, file.suffix, extra)

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(200, b"", ".html")
        self.site.told.update(told)
        self.site.done.set()

    def _send(self, status: int, body: bytes, suffix: str, extra: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "max-age=3600")  # so that a module is sent once to a page and its worker
        self.send_header("Content-Type", TYPES.get(suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


def visit(chromium: str, folders: dict[str, Path], task: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """What the page says when it has done `task`, and the bytes of each file that it was sent."""
    site = Site(folders)
    with serving(site) as address, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        (folders["files"] / "task.json").write_text(json.dumps(task))
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command = [chromium, *options, f"--user-data-dir={profile}", f"{address}/page.html"]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(LONGEST):
                if site.done.wait(1):
                    break
                if browser.poll() is not None:
                    sys.exit(f"{chromium} ended with status {browser.returncode} before the page was done")
            else:
                sys.exit(f"the page did not answer within {LONGEST} s")
        finally:
            browser.terminate()
            browser.wait()
    if "error" in site.told:
        sys.exit(f"the page failed: {site.told['error']}")
    return site.told, site.sent


@contextmanager
def serving(site: Site) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Serving", (Handler,), {"site": site}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    told = arguments()
    if told.write_tflite:
        write_tflite(told.networks, told.write_tflite)
        return
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("Chromium is missing; install it, on Debian by apt-get install chromium")
    modules = installed()
    torch.set_num_threads(1)
    measured: dict[str, float] = {}
    kilobytes: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        files = Path(name)
        folders = {"files": files, "npm": modules, "prunnet": MODULE, "page": Path(__file__).parent}
        for backbone in told.networks:
            tflite = told.tflite and told.tflite / f"{backbone}.tflite"
            expected = write(backbone, files, tflite)
            if backbone == "resnet18":
                kilobytes = first_embeddings(chromium, folders)
            measured |= measure(chromium, folders, backbone, expected, told.rounds)
            if tflite is None or not tflite.is_file():
                print(f"{backbone}: without LiteRT.js, for which there is no file (--tflite)")
    for key, value in sorted(measured.items(), key=lambda item: not item[0].endswith("_over_litert")):
        print(f"{key}: {value:.3f}")
    for key, value in kilobytes.items():
        print(f"{key}: {value:.0f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=15, help="turns that medians are taken over (default: 15)")
    parser.add_argument("--tflite", type=Path, metavar="FOLDER", help="has NETWORK.tflite for LiteRT.js")
    parser.add_argument("--write-tflite", type=Path, metavar="FOLDER", help="write such files and do nothing else")
    told = parser.parse_args()
    told.networks = told.networks or list(NETWORKS)
    if unknown := set(told.networks) - set(NETWORKS):
        parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(NETWORKS)}")
    return told


def installed() -> Path:
    """The folder of the npm packages, which are installed if they are not there."""
    cache = Path(os.environ.get("PRUNNET_CACHE") or Path.home() / ".cache" / "prunnet") / "browser-benchmark"
    modules = cache / "node_modules"
    if all(_version(modules / name) == version for name, version in PACKAGES.items()):
        return modules
    npm = shutil.which("npm")
    if npm is None:
        sys.exit("npm is missing; install it, on Debian by apt-get install npm")
    cache.mkdir(parents=True, exist_ok=True)
    print(f"installing {', '.join(PACKAGES)} into {cache}")
    command = [npm, "install", "--prefix", str(cache), "--ignore-scripts", "--no-audit", "--no-fund"]
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    ran = subprocess.run([*command, *wanted], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"npm could not install {' '.join(wanted)}:\n{ran.stderr}")
    return modules


def _version(package: Path) -> str | None:
    file = package / "package.json"
    return json.loads(file.read_text())["version"] if file.is_file() else None


def write(backbone: str, files: Path, tflite: Path | None) -> list[torch.Tensor]:
    """The files of a network, and its embeddings of the image: at each capacity, and dense."""
    net = network(backbone, CAPACITIES)
    image = torch.randn(1, *net.preprocessing.input_size)
    (files / "image.bin").write_bytes(image.numpy().tobytes())
    packed = prunnet.pack(net, files / f"{backbone}.prun", grid=CAPACITIES, runtime=True)
    dense = net.subnetwork(1.0)
    prunnet.export(dense, files / f"{backbone}.onnx")
    if tflite and tflite.is_file():
        shutil.copyfile(tflite, files / tflite.name)
    with torch.inference_mode():
        return [*(prunnet.Runtime(packed, capacity)(image)[0] for capacity in CAPACITIES), dense(image)[0]]


def write_tflite(backbones: list[str], folder: Path) -> None:
    """The dense networks for LiteRT.js."""
    try:
        import litert_torch
    except ImportError as error:
        sys.exit(f"litert-torch is missing; install it into an environment of its own, with prunnet ({error})")
    folder.mkdir(parents=True, exist_ok=True)
    for backbone in backbones:
        net = network(backbone, CAPACITIES)
        image = torch.randn(1, *net.preprocessing.input_size)
        litert_torch.convert(net.subnetwork(1.0).eval(), (image,)).export(str(folder / f"{backbone}.tflite"))
        print(f"wrote {folder / backbone}.tflite")


def first_embeddings(chromium: str, folders: dict[str, Path]) -> dict[str, float]:
    """Kilobytes that each runtime needs until its first embedding with ResNet-18."""
    runs = {
        "kilobytes_to_first_embedding": {"runtime": "prunnet", "file": "/files/resnet18.prun", "capacity": 0.1},
        "onnxruntime_web_kilobytes": {"runtime": "onnxruntime", "file": "/files/resnet18.onnx"},
    }
    if (folders["files"] / "resnet18.tflite").is_file():
        runs["litert_kilobytes"] = {"runtime": "litert", "file": "/files/resnet18.tflite"}
    kilobytes = {}
    for key, run in runs.items():
        _, sent = visit(chromium, folders, {"runs": [run], "rounds": 0})
        needed = {name: size for name, size in sent.items() if not name.startswith(OWN)}
        for name, size in needed.items():
            print(f"{size:>12,} bytes  {name}")
        kilobytes[key] = sum(needed.values()) / 1000
    return kilobytes


def measure(
    chromium: str, folders: dict[str, Path], backbone: str, expected: list[torch.Tensor], rounds: int
) -> dict[str, float]:
    """Ratios to onnxruntime-web, after every embedding was found right."""
    name = NETWORKS[backbone]
    runs: list[dict[str, Any]] = [
        {"runtime": "prunnet", "file": f"/files/{backbone}.prun", "capacity": c, "worker": False} for c in CAPACITIES
    ]
    labels = [f"{name} prunnet, {c:.0%}" for c in CAPACITIES]
    for runtime, suffix in (("onnxruntime", "onnx"), ("litert", "tflite")):
        if (folders["files"] / f"{backbone}.{suffix}").is_file():
            runs.append({"runtime": runtime, "file": f"/files/{backbone}.{suffix}"})
            labels.append(f"{name} {runtime}, dense")
    told, _ = visit(chromium, folders, {"runs": runs, "rounds": rounds})
    for index, label in enumerate(labels):
        off = float((torch.tensor(told["embeddings"][index]) - expected[min(index, len(CAPACITIES))]).abs().max())
        print(f"{label}: embedding within {off:.1e}")
        if not off <= (TOLERANCE if index < len(CAPACITIES) else 1e-3):
            sys.exit(f"{label}: the page's embedding is not that of Python")
    times = dict(zip(labels, told["seconds"], strict=True))
    print("fastest turns")
    fastest = {label: min(turns) for label, turns in times.items()}
    show(fastest)
    print(", ".join(f"{key} {ratio:.3f}" for key, ratio in ratios(name, fastest).items()))
    print("medians")
    seconds = {label: median(turns) for label, turns in times.items()}
    show(seconds)
    return ratios(name, seconds)


def ratios(name: str, seconds: dict[str, float]) -> dict[str, float]:
    """To LiteRT.js where it takes part, then to onnxruntime-web."""
    found = {}
    for runtime, suffix in (("litert", "_over_litert"), ("onnxruntime", "")):
        if (dense := seconds.get(f"{name} {runtime}, dense")) is not None:
            for c in reversed(CAPACITIES):
                found[f"{name}_{100 * c:.0f}{suffix}"] = seconds[f"{name} prunnet, {c:.0%}"] / dense
    return found


if __name__ == "__main__":
    main()
