"""The same file in WebAssembly gives the same embeddings, in node and in a browser, from the same bytes."""

import json
import re
import shutil
import subprocess
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.report.browser import CHROMIUM
from tests.runtime.networks import CAPACITIES, GRID, PROMISED, SIDE, EveryOperation, every_operation, whole_backbone
from tests.runtime.test_running import picture_of

import prunnet
from prunnet.storage.prun import prefix_bytes

MODULE = Path(prunnet.__file__).parent / "runtime" / "js"
TYPES = {".js": "text/javascript", ".gz": "application/gzip", ".html": "text/html"}
FIRST = 32768  # bytes of the first request
HIDDEN = 4096  # a layer so wide that every capacity needs more bytes than that

SCRIPT = """
const at = (name) => `${address}/${name}.prun`;
const told = { progress: [] };
const progress = ({ loaded, total }) => told.progress.push([loaded, total]);
const model = await PrunNet.load(at("every"), { capacity: 0.2, progress });
told.familyId = model.familyId;
told.info = [model.capacity, model.capacities, model.embeddingDim, model.inputSize, model.bytes];
told.image = [...await model.embed(image)];
told.picture = [...await model.embed(picture)];
await model.upgrade(0.4);
told.upgraded = [...await model.embed(image)];
told.bytes = [model.bytes, model.held];
await model.upgrade(0.2);
told.bytesStill = [model.bytes, model.held];
told.wrong = await model.upgrade(0.3).catch((error) => error.message);
told.odd = await model.embed({ data: new Uint8Array(7), width: 2, height: 2 }).catch((error) => error.message);
model.close();
const asked = [model.embed(image), model.upgrade(0.4)];
told.closed = await Promise.all(asked.map((one) => one.catch((error) => error.message)));
const plain = await PrunNet.load(at("plain"), { capacity: 0.2, cache: false });
told.plain = [...await plain.embed(image)];
await plain.upgrade(0.4);
told.plainBytes = [plain.bytes, plain.held];
plain.close();
const hidden = await PrunNet.load(at("hidden"), { capacity: 0.2, cache: false });
await Promise.all([hidden.upgrade(0.4), hidden.upgrade(1), hidden.upgrade(0.4)]);
told.hidden = [...await hidden.embed(image)];
hidden.close();
told.damaged = await PrunNet.load(at("damaged"), { capacity: 0.2 }).catch((error) => error.message);
"""

CACHED = """
const again = await PrunNet.load(at("every"), { capacity: 0.2 });
const canvas = new OffscreenCanvas(50, 40); canvas.getContext("2d").putImageData(picture, 0, 0);
told.bitmap = [...await again.embed(await createImageBitmap(picture))];
told.blob = [...await again.embed(await canvas.convertToBlob())];
again.close();
const before = await PrunNet.load(at("stalling"), { capacity: 0.4 });
before.close();
const stalling = await PrunNet.load(at("stalling"), { capacity: 0.4, progress: () => { told.again = true; } });
told.stalling = [...await stalling.embed(image)];
stalling.close();
const old = await PrunNet.load(at("changing"), { capacity: 0.2 });
old.close();
await fetch("/change", { method: "POST" });
const changed = await PrunNet.load(at("changing"), { capacity: 0.2 });
told.changed = [...await changed.embed(image)];
changed.close();
"""


class Handler(BaseHTTPRequestHandler):
    """The module, a page, and files; counts what it serves of them, and keeps what the page posts.

    Files come by ranges, but plain.prun, and stalling.prun, which on its second request stops after some bytes until it
    is left. hidden.prun shows no range, as from another origin; damaged.prun is, and changing.prun changes when told.
    """

    content: bytes
    other: bytes
    page: str
    served: defaultdict[str, list[int]]
    posted: dict[str, Any]
    done: threading.Event
    changed: threading.Event

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if name.endswith(".prun"):
            self._file(name.removesuffix(".prun"))
        elif name == "page.html":
            self._send(self.page.encode(), TYPES[".html"])
        elif (MODULE / name).is_file():
            self._send((MODULE / name).read_bytes(), TYPES[Path(name).suffix])
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/change":
            self.changed.set()
        else:
            self.posted.update(json.loads(body))
            self.done.set()
        self._send(b"", "text/plain")

    def _file(self, name: str) -> None:
        content = bytearray(self.other if name == "changing" and self.changed.is_set() else self.content)
        if name == "damaged":
            content[600] ^= 1
        if name in ("plain", "stalling"):
            self._send(bytes(content), "application/octet-stream", stalls=bool(self.served[name]))
            self.served[name].append(len(content))
            return
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = bytes(content[first : last + 1])
        self.send_response(206)
        if name != "hidden":
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(content)}")
        self.served[name].append(len(body))
        self._body(body, "application/octet-stream")

    def _send(self, body: bytes, kind: str, stalls: bool = False) -> None:
        self.send_response(200)
        self._body(body, kind, stalls)

    def _body(self, body: bytes, kind: str, stalls: bool = False) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:1000] if stalls else body)
        if stalls:
            self.connection.recv(1)  # nothing, once the other side has left

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def serving(content: bytes, other: bytes = b"", page: str = "") -> Iterator[tuple[str, type[Handler]]]:
    state = {"content": content, "other": other, "page": page, "served": defaultdict(list), "posted": {}}
    handler = type("Serving", (Handler,), {**state, "done": threading.Event(), "changed": threading.Event()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A file whose capacities are fetched one after the other."""
    file = prunnet.pack(
        every_operation(HIDDEN), tmp_path_factory.mktemp("pack") / "large.prun", grid=GRID, runtime=True
    )
    assert prefix_bytes(file, GRID[0]) > FIRST
    return file


@pytest.fixture
def image() -> torch.Tensor:
    return torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(3))


def inputs(image: torch.Tensor) -> str:
    pixels = np.asarray(picture_of(50, 40).convert("RGBA"))
    return (
        f"const image = new Float32Array({image.flatten().tolist()});\n"
        f"const pixels = new Uint8ClampedArray({pixels.flatten().tolist()});\n"
    )


def check(told: dict[str, Any], served: dict[str, list[int]], large: Path, image: torch.Tensor) -> None:
    """Everything that the script says, and what was fetched for it."""
    small, middle, whole = (prefix_bytes(large, capacity) for capacity in GRID)
    for capacity, name in ((0.2, "image"), (0.4, "upgraded"), (0.2, "plain"), (0.4, "hidden")):
        expected = prunnet.unpack(large, capacity, backbone=EveryOperation(HIDDEN))(image[None])[0]
        assert torch.tensor(told[name]) @ expected >= 0.99999
    runtime = prunnet.Runtime(large, 0.2)
    assert torch.tensor(told["picture"]) @ runtime.encode(picture_of(50, 40)).vectors[0] >= 0.99999
    assert told["familyId"] == runtime.family_id
    assert told["info"] == [0.2, list(runtime.grid), runtime.embedding_dim, [3, SIDE, SIDE], small]
    assert told["bytes"] == told["bytesStill"] == [middle, middle]
    assert served["every"][:3] == [FIRST, small - FIRST, middle - small]
    assert told["plainBytes"] == [middle, whole] and served["plain"] == [whole]
    assert served["hidden"] == [FIRST, small - FIRST, middle - small, whole - middle]
    assert told["progress"] == sorted(told["progress"]) and told["progress"][-1] == [middle, middle]
    assert "no band that ends at 30 %; it has 20 %, 40 %, 100 %" in told["wrong"]
    assert "1, 3 or 4 bytes each" in told["odd"]
    assert told["closed"] == ["the model is closed"] * 2
    assert "checksum" in told["damaged"]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_in_node(large, image, tmp_path) -> None:
    script = tmp_path / "script.mjs"
    with serving(large.read_bytes()) as (address, handler):
        script.write_text(
            f"import {{ PrunNet }} from {json.dumps((MODULE / 'prunnet.js').as_uri())};\n"
            f"const address = '{address}';\n"
            f"{inputs(image)}\nconst picture = {{ data: pixels, width: 50, height: 40 }};\n"
            f"{SCRIPT}\nconsole.log(JSON.stringify(told));\n"
        )
        ran = subprocess.run(["node", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    check(json.loads(ran.stdout), handler.served, large, image)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_types_are_those_of_the_module() -> None:
    described = re.search(r"export class PrunNet \{(.*?)\n\}", (MODULE / "prunnet.d.ts").read_text(), re.DOTALL)
    assert described
    names = re.findall(r"^  (?:static |readonly )?(\w+)[(:]", described[1], re.MULTILINE)
    script = (
        f"const {{ PrunNet }} = await import({json.dumps((MODULE / 'prunnet.js').as_uri())});\n"
        "console.log(JSON.stringify(['load', ...Object.getOwnPropertyNames(PrunNet.prototype).slice(1)]));"
    )
    ran = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True)
    assert sorted(names) == sorted(json.loads(ran.stdout))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
@pytest.mark.parametrize("name", PROMISED)
def test_whole_backbones_in_node(name, tmp_path) -> None:
    net = whole_backbone(name)
    packed = prunnet.pack(net, tmp_path / "whole.prun", grid=CAPACITIES, runtime=True)
    image = torch.randn(1, *net.preprocessing.input_size)
    (tmp_path / "image.bin").write_bytes(image.numpy().tobytes())
    script = tmp_path / "script.mjs"
    with serving(packed.read_bytes()) as (address, _):
        script.write_text(
            "import { readFileSync } from 'node:fs';\n"
            f"import {{ PrunNet }} from {json.dumps((MODULE / 'prunnet.js').as_uri())};\n"
            f"const image = new Float32Array(new Uint8Array(readFileSync('{tmp_path}/image.bin')).buffer);\n"
            f"const model = await PrunNet.load('{address}/whole.prun', {{ capacity: {CAPACITIES[0]} }});\n"
            "const told = [];\n"
            f"for (const capacity of {list(CAPACITIES)}) {{\n"
            "  await model.upgrade(capacity);\n  told.push([...await model.embed(image)]);\n}\n"
            "model.close();\nconsole.log(JSON.stringify(told));\n"
        )
        ran = subprocess.run(["node", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for capacity, embedding in zip(CAPACITIES, json.loads(ran.stdout), strict=True):
        expected = prunnet.unpack(packed, capacity, backbone=net.backbone)(image)[0]
        assert torch.tensor(embedding) @ expected >= 0.99999, capacity


def test_module_and_library_together_are_small() -> None:
    shipped = [file for file in MODULE.iterdir() if file.suffix in (".js", ".gz")]
    assert sum(file.stat().st_size for file in shipped) < 100_000


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_in_a_browser(large, packed, image, tmp_path) -> None:
    page = (
        "<!doctype html><script type=module>\n"
        "const post = (body) => fetch('/done', { method: 'POST', body: JSON.stringify(body) });\n"
        "const address = location.origin;\ntry {\nconst { PrunNet } = await import('/prunnet.js');\n"
        f"{inputs(image)} const picture = new ImageData(pixels, 50, 40);\n{SCRIPT}{CACHED}await post(told);\n"
        "} catch (error) { await post({ error: String(error) + error.stack }); }\n</script>"
    )
    with serving(large.read_bytes(), packed.read_bytes(), page) as (address, handler):
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        browser = subprocess.Popen(
            [str(CHROMIUM), *options, f"{address}/page.html"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            assert handler.done.wait(120), "the page does not answer"
        finally:
            browser.terminate()
            browser.wait()
    told = handler.posted
    assert "error" not in told, told["error"]
    check(told, handler.served, large, image)
    picture = torch.tensor(told["picture"])
    assert torch.tensor(told["bitmap"]) @ picture >= 0.99999 and torch.tensor(told["blob"]) @ picture >= 0.99999
    # what was fetched once is in the cache: its first 44 bytes say whether the file is still the same
    assert handler.served["every"][3:] == [44]
    assert torch.tensor(told["stalling"]) @ torch.tensor(told["upgraded"]) >= 0.99999
    assert len(handler.served["stalling"]) == 2 and "again" not in told
    expected = prunnet.unpack(packed, 0.2, backbone=EveryOperation())(image[None])[0]
    assert torch.tensor(told["changed"]) @ expected >= 0.99999
