"""One file on a web server holds every size. A device fetches the prefix it can carry, and later the bytes between."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

from _family import family, run_folder, training_batches

import prunnet


class Ranges(SimpleHTTPRequestHandler):
    """Answers `Range: bytes=a-b`, as every real web server does and Python's does not."""

    def do_GET(self) -> None:
        start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        with open(self.translate_path(self.path), "rb") as file:  # noqa: PTH123
            content = file.read()
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[start : end + 1])

    def log_message(self, *_: object) -> None: ...


def fetch(url: str, start: int, end: int) -> bytes:
    with urlopen(Request(url, headers={"Range": f"bytes={start}-{end - 1}"})) as response:
        return response.read()


run = run_folder(__doc__)
net, data = family(run)
folder = run / "examples"
packed = prunnet.pack(net, folder / "family.prun", grid=(1.0, 0.4, 0.2, 0.1), loader=training_batches(net, data))
print(f"on the server: {packed.stat().st_size:,} bytes, every size")

server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Ranges, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/family.prun"

# `prunnet.load(url, capacity=0.1)` is enough to run it. To keep what was fetched, and to upgrade it:
device = folder / "device.prun"
device.write_bytes(fetch(url, 0, prunnet.storage.prun.prefix_bytes(url, 0.1)))
print(f"10 %: {device.stat().st_size:,} bytes")

wanted = prunnet.storage.prun.prefix_bytes(device, 0.4)  # the prefix knows where the next sizes end
with device.open("ab") as file:
    print(f"40 %: {file.write(fetch(url, device.stat().st_size, wanted)):,} bytes more")
server.shutdown()

for capacity in (0.1, 0.4):
    print(prunnet.load(device, capacity=capacity).extra_repr())
