"""The same file in WebAssembly gives the same embeddings, in node and in a browser, from the same bytes."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.report.browser import CHROMIUM
from tests.runtime.networks import SIDE, EveryOperation
from tests.runtime.test_running import picture_of

import prunnet
from prunnet.storage.prun import prefix_bytes

MODULE = Path(prunnet.__file__).parent / "runtime" / "js"
TYPES = {".js": "text/javascript", ".gz": "application/gzip", ".html": "text/html"}

SCRIPT = """
const told = { progress: 0 };
const progress = ({ loaded }) => { told.progress = Math.max(told.progress, loaded); };
const model = await PrunNet.load(address, { capacity: 0.2, progress });
told.familyId = model.familyId;
told.info = [model.capacity, model.capacities, model.embeddingDim, model.inputSize, model.bytes];
told.image = [...await model.embed(image)];
told.picture = [...await model.embed(picture)];
await model.upgrade(0.4);
told.upgraded = [...await model.embed(image)];
told.bytes = model.bytes;
told.held = model.held;
await model.upgrade(0.2);
told.heldStill = model.held;
told.wrong = await model.upgrade(0.3).catch((error) => error.message);
told.odd = await model.embed({ data: new Uint8Array(7), width: 2, height: 2 }).catch((error) => error.message);
const plain = await PrunNet.load(address.replace("every", "plain"), { capacity: 0.2, cache: false });
told.plain = [...await plain.embed(image)];
const damaged = address.replace("every", "damaged");
told.damaged = await PrunNet.load(damaged, { capacity: 0.2 }).catch((error) => error.message);
plain.close();
model.close();
"""


class Handler(BaseHTTPRequestHandler):
    """The module, a page, and the file: by ranges, whole, and damaged. What the page posts is kept."""

    content: bytes
    page: str
    served: list[int]
    posted: dict[str, Any]
    done: threading.Event

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if name.endswith(".prun"):
            self._file(name)
        elif name == "page.html":
            self._send(self.page.encode(), TYPES[".html"])
        elif (MODULE / name).is_file():
            self._send((MODULE / name).read_bytes(), TYPES[Path(name).suffix])
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        self.posted.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._send(b"", "text/plain")
        self.done.set()

    def _file(self, name: str) -> None:
        content = bytearray(self.content)
        if name == "damaged.prun":
            content[-9 - len(content) // 2] ^= 1
            content[600] ^= 1
        if name == "plain.prun":
            self._send(bytes(content), "application/octet-stream")
            return
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        body = bytes(content[first : last + 1])
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(content)}")
        self._body(body, "application/octet-stream")
        if name == "every.prun":
            self.served.append(len(body))

    def _send(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self._body(body, kind)

    def _body(self, body: bytes, kind: str) -> None:
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def serving(content: bytes, page: str = "") -> Iterator[tuple[str, type[Handler]]]:
    state = {"content": content, "page": page, "served": [], "posted": {}, "done": threading.Event()}
    handler = type("Serving", (Handler,), state)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def image() -> torch.Tensor:
    return torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(3))


def inputs(image: torch.Tensor) -> str:
    pixels = np.asarray(picture_of(50, 40).convert("RGBA"))
    return (
        f"const image = new Float32Array({image.flatten().tolist()});\n"
        f"const pixels = new Uint8ClampedArray({pixels.flatten().tolist()});\n"
    )


def check(told: dict[str, Any], packed: Path, image: torch.Tensor) -> None:
    """Everything that the script says."""
    for capacity, name in ((0.2, "image"), (0.4, "upgraded"), (0.2, "plain")):
        expected = prunnet.unpack(packed, capacity, backbone=EveryOperation())(image[None])[0]
        assert torch.tensor(told[name]) @ expected >= 0.99999
    runtime = prunnet.Runtime(packed, 0.2)
    assert torch.tensor(told["picture"]) @ runtime.encode(picture_of(50, 40)).vectors[0] >= 0.99999
    assert told["familyId"] == runtime.family_id
    assert told["info"][:4] == [0.2, list(runtime.grid), runtime.embedding_dim, [3, SIDE, SIDE]]
    assert told["progress"] > 0
    assert told["bytes"] == prefix_bytes(packed, 0.4)
    assert told["held"] == told["heldStill"] == min(packed.stat().st_size, max(32768, told["bytes"]))
    assert "no band that ends at 30 %; it has 20 %, 40 %, 100 %" in told["wrong"]
    assert "1, 3 or 4 bytes each" in told["odd"]
    assert "checksum" in told["damaged"]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_in_node(packed, image, tmp_path) -> None:
    script = tmp_path / "script.mjs"
    with serving(packed.read_bytes()) as (address, _):
        script.write_text(
            f"import {{ PrunNet }} from {json.dumps((MODULE / 'prunnet.js').as_uri())};\n"
            f"const address = '{address}/every.prun';\n"
            f"{inputs(image)}\nconst picture = {{ data: pixels, width: 50, height: 40 }};\n"
            f"{SCRIPT}\nconsole.log(JSON.stringify(told));\n"
        )
        ran = subprocess.run(["node", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    check(json.loads(ran.stdout), packed, image)


def test_module_and_library_together_are_small() -> None:
    shipped = [file for file in MODULE.iterdir() if file.suffix in (".js", ".gz")]
    assert sum(file.stat().st_size for file in shipped) < 100_000


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_in_a_browser(packed, image, tmp_path) -> None:
    page = (
        "<!doctype html><script type=module>\n"
        "const told = {};\nconst post = (body) => fetch('/done', { method: 'POST', body: JSON.stringify(body) });\n"
        "try {\n const { PrunNet } = await import('/prunnet.js');\n const address = location.origin + '/every.prun';\n"
        f"{inputs(image)} const picture = new ImageData(pixels, 50, 40);\n"
        f"{SCRIPT.replace('const told = {', 'Object.assign(told, {').replace('progress: 0 };', 'progress: 0 });')}"
        "const again = await PrunNet.load(address, { capacity: 0.2 });\n"
        "const canvas = new OffscreenCanvas(50, 40); canvas.getContext('2d').putImageData(picture, 0, 0);\n"
        "told.bitmap = [...await again.embed(await createImageBitmap(picture))];\n"
        "told.blob = [...await again.embed(await canvas.convertToBlob())];\n"
        "again.close(); await post(told);\n"
        "} catch (error) { await post({ error: String(error) + error.stack }); }\n</script>"
    )
    with serving(packed.read_bytes(), page) as (address, handler):
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
    check(told, packed, image)
    picture = torch.tensor(told["picture"])
    assert torch.tensor(told["bitmap"]) @ picture >= 0.99999 and torch.tensor(told["blob"]) @ picture >= 0.99999
    # what was fetched once is in the cache: of the second model only its first 44 bytes are asked for
    assert handler.served[-1] == 44
    assert sum(handler.served) <= max(32768, prefix_bytes(packed, 0.4)) + 44
