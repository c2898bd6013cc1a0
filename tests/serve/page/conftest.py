"""Two small families with their galleries, the service as a process of its own, and a browser that visits its page."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.report.browser import CHROMIUM

import prunnet
from prunnet.runs import Run
from prunnet.search import images_in, index

playwright = pytest.importorskip("playwright.sync_api", reason="no playwright")
pytest.importorskip("fastapi", reason="no fastapi")

CAPACITIES = (0.05, 0.13, 0.4, 1.0)
SETTINGS: dict[str, Any] = {
    "data_options": {"classes": 24, "images_per_class": 8, "size": 32, "difficulty": 0.1},
    "backbone": "resnet18",
    "backbone_options": {"in_chans": 1, "channels": [16, 32, 64, 128], "layers": [1, 1, 1, 1]},
    "input_size": (1, 32, 32),
    "embedding_dim": 32,
    "capacities": (0.4,),
    "evaluate_capacities": CAPACITIES[::-1],
    "adapt_batches": 4,
    "epochs": 3,
    "quiet": True,
}


@dataclass
class Site:
    """A run and its gallery, and the service that offers them."""

    run: Path
    gallery: Path
    queries: Path
    process: "subprocess.Popen[str] | None" = None
    address: str = ""

    def start(self, port: int = 0, *options: object) -> None:
        told = ("--family", self.run, "--queries", self.queries, "--port", port, *options)
        command = [sys.executable, "-m", "prunnet", "serve", self.gallery, *told]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "500"}
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if found := re.search(r"http://[\d.]+:\d+/", line):
                self.address = found[0]
                return
        pytest.fail(f"the service does not start: {said}")

    def again(self) -> "Site":
        """Another service of the same."""
        return Site(self.run, self.gallery, self.queries)

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    def end(self, how: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.communicate()
            self.process = None


@dataclass
class Visit:
    """A page that is open, what it asked for, and what its console complains of."""

    page: Any
    requests: list[Any] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def answered(self, name: str | None = None) -> None:
        """Wait for answers, to the question `name` if it is told."""
        if name is not None:
            playwright.expect(self.page.locator("#asked-name")).to_have_text(re.compile(name))
        playwright.expect(self.page.locator("#now .hits li")).to_have_count(6)
        playwright.expect(self.page.locator("#answers")).to_have_attribute("aria-busy", "false")

    def ranges(self) -> list[str]:
        """Of the network's file, in the order in which they were asked for."""
        return [request.headers["range"] for request in self.requests if "/v1/model.prun" in request.url]

    def vectors(self) -> list[bytes]:
        """What was sent to be searched for."""
        return [request.post_data_buffer for request in self.requests if "/v1/search" in request.url]

    def draw(self, *strokes: tuple[tuple[float, float], ...]) -> None:
        """On the pad, in shares of its side."""
        box = self.page.locator("#pad").bounding_box()
        for stroke in strokes:
            places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in stroke]
            self.page.mouse.move(*places[0])
            self.page.mouse.down()
            for place in places[1:]:
                self.page.mouse.move(*place, steps=5)
            self.page.mouse.up()


@pytest.fixture(scope="session")
def make_site(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Site]:
    def make(seed: int) -> Site:
        folder = tmp_path_factory.mktemp("site")
        run = prunnet.train(out=folder / "run", seed=seed, **SETTINGS)
        data = run.config.load_data()
        for part in ("query", "gallery"):
            images = getattr(data, part)
            for place, id in enumerate(images.ids):
                file = folder / part / f"{id}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                images.image(place).save(file)
        return _indexed(run, folder / "gallery", folder / "query", folder / "gallery-index")

    return make


def _indexed(run: Run, gallery: Path, queries: Path, place: Path) -> Site:
    index(place, run.load_network().subnetwork(1.0), images_in(gallery), made_with=str(run.folder))
    return Site(run.folder, place, queries)


@pytest.fixture(scope="session")
def site(make_site: Callable[[int], Site]) -> Iterator[Site]:
    """A service that runs; tests leave it running."""
    made = make_site(0)
    made.start()
    yield made
    made.end()


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The same with a network for colours: JPEG files of coloured spots, a class of them of the same colours."""
    folder, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    for number in range(12):
        part, count = ("train", 8) if number < 6 else ("gallery", 4)
        colours = rng.integers(0, 256, (4, 3), dtype=np.uint8)
        for place in range(count + 2):
            file = folder / ("query" if number >= 6 and place >= count else part) / f"class-{number}" / f"{place}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            spots = Image.fromarray(colours[rng.integers(0, 4, (6, 8))])
            spots.resize((400, 300), Image.Resampling.BICUBIC).save(file, quality=90)
    settings = {**SETTINGS, "data": str(folder), "data_options": {}, "input_size": (3, 32, 32), "epochs": 1}
    settings["backbone_options"] = {**SETTINGS["backbone_options"], "in_chans": 3}
    run = prunnet.train(out=folder / "run", **settings)
    made = _indexed(run, folder / "gallery", folder / "query", folder / "gallery-index")
    made.start()
    yield made
    made.end()


@pytest.fixture(scope="module")  # while it is open an event loop runs in this thread, which no other test expects
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no chromium")
    with playwright.sync_playwright() as started:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--use-fake-device-for-media-stream"]
        launched = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens a page as a new visitor. In the end nothing came from elsewhere, and the console complains of nothing."""
    visits: list[tuple[Visit, str]] = []

    def open_page(address: str, *, script: str = "", **options: Any) -> Visit:
        context = browser.new_context(**options)
        context.set_default_timeout(60_000)
        playwright.expect.set_options(timeout=60_000)
        made = Visit(context.new_page())
        made.page.on("request", lambda request: made.requests.append(request))
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.on("console", lambda told: made.complaints.append(told.text) if told.type != "log" else None)
        if script:
            context.add_init_script(script)
        made.page.goto(address)
        visits.append((made, address))
        return made

    yield open_page
    for made, address in visits:
        foreign = [request.url for request in made.requests if not request.url.startswith((address, "blob:", "data:"))]
        assert foreign == []
        assert made.complaints == []
        made.page.context.close()
