"""What a real browser makes of a page, without any driver: the page measures itself and prints into the dumped DOM."""

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Literal

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

MEASURE = """
<script>addEventListener("load", () => parent.postMessage(JSON.stringify({
  inner: innerWidth,
  scroll: document.documentElement.scrollWidth,
  images: document.images.length,
  broken: [...document.images].filter(image => !image.complete || !image.naturalWidth).length,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
}), "*"))</script>
"""
# An iframe is as narrow as a phone, which a window of Chromium cannot be.
FRAME = """<!doctype html><style>* { margin: 0; border: 0 }</style><pre></pre><iframe></iframe><script>
addEventListener("message", event => document.querySelector("pre").textContent = event.data);
const frame = document.querySelector("iframe");
Object.assign(frame, {width: %d, height: 800, src: %s});
</script>"""


@dataclass(frozen=True)
class Look:
    """The measurements of one visit."""

    inner: int
    scroll: int
    images: int
    broken: int
    dark: bool
    console: tuple[str, ...]


def look(page: Path, width: int, scheme: Literal["light", "dark"] = "light") -> Look:
    """Open a copy of `page` at `width` CSS pixels and report what happened."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "page.html").write_text(page.read_text(encoding="utf-8") + MEASURE, encoding="utf-8")
        (folder / "frame.html").write_text(FRAME % (width, json.dumps("page.html")), encoding="utf-8")
        command = [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--no-first-run",
            f"--user-data-dir={folder / 'profile'}", f"--window-size={max(width, 500) + 20},900",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            "--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", (folder / "frame.html").as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    found = re.search(r"<pre>(\{.*?\})</pre>", done.stdout)
    assert found, f"the page did not load: {done.stdout[-500:]} {done.stderr[-500:]}"
    console = tuple(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return Look(**json.loads(unescape(found[1])), console=console)
