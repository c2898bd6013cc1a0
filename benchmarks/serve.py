"""The service on loopback against what limits it: bare faiss, an empty handler, and the forward pass.

    python benchmarks/serve.py                                       # some minutes
    python benchmarks/serve.py --count 10000 --quick                 # whether it works at all
    python benchmarks/serve.py --count 10000 --memory-over 200000    # nothing but memory, over so many requests

The service runs in a process of its own, asked over 32 connections by this one. Bare faiss is `IndexFlatIP.search`, one
query at a time in this process while the service is idle. The empty handler is an application of FastAPI on the same
server that parses the same body, and answers with as many bytes as the service does. All take turns, and medians count.

`qps_over_limit`: queries a second over the lower of the two limits, for raw bytes or JSON, whichever is worse.
`p99_over_median`: latency of raw queries that arrive at even intervals at half the rate that was reached.
`batched_over_single`: queries a second with batching over those without. `images_over_forward`: pictures a second over
forward passes of one picture. Targets: 0.8 or more, 5 or less, above 1, 0.8 or more.
`alone_over_faiss`: median latency of one connection that asks alone over that of bare faiss.
`megabytes_grown`: by how much more memory the service has after all requests than after the first tenth of them.
"""

import argparse
import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import faiss
import numpy as np
import torch
from PIL import Image

import prunnet
from prunnet._timing import medians
from prunnet.cli.serve import ENVIRONMENT
from prunnet.serve.model import ServedModel
from prunnet.serve.running import listen

DIMENSIONS, CONNECTIONS, K = 256, 32, 10
SIDE = 112


def unit(count: int, seed: int) -> torch.Tensor:
    vectors = torch.randn(count, DIMENSIONS, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(vectors, dim=1)


def prepare(folder: Path, count: int) -> str:
    """A gallery of `count` vectors and a network for it; the id of the family."""
    torch.manual_seed(0)
    net = prunnet.convert(
        prunnet.create_backbone("resnet18"), DIMENSIONS, preprocessing=prunnet.Preprocessing((3, SIDE, SIDE))
    )
    prunnet.pack(net.eval(), folder / "model.prun", grid=(1.0,), runtime=True)
    index = prunnet.VectorIndex.create(folder / "gallery", net)
    for start in range(0, count, 50_000):
        vectors = unit(min(50_000, count - start), start)
        ids = [f"images/{row:09d}.jpg" for row in range(start, start + len(vectors))]
        index.add(prunnet.Embeddings(vectors, net.family_id, 1.0), ids, [{"label": id[-6:]} for id in ids])
    return net.family_id


def serve(folder: Path, kind: str) -> None:
    """What the other process does."""
    import uvicorn

    from prunnet.serve import answering
    from prunnet.serve.app import make_app

    if kind == "single":
        answering.TOGETHER = 1
    if kind == "empty":
        app = empty(bytes.fromhex(sys.argv[-1]))
    else:
        app = make_app(prunnet.VectorIndex.open(folder / "gallery"), ServedModel.open(str(folder / "model.prun")))
    with listen("127.0.0.1", 0) as listening:
        print(listening.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, http="h11", log_level="warning", access_log=False)).run([listening])


def empty(answer: bytes) -> Any:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    from prunnet.serve.messages import SearchRequest, matrix_from, parse

    app = FastAPI()

    @app.post("/v1/search")
    async def search(request: Request) -> Response:
        body = await request.body()
        if request.headers["content-type"] == "application/json":
            parse(SearchRequest, body).queries()
        else:
            matrix_from(body, DIMENSIONS, "float32")
        return Response(answer, media_type="application/json")

    return app


@contextmanager
def served(folder: Path, kind: str, *more: str) -> Iterator[tuple[int, int]]:
    """A service of this kind: its port and process."""
    command = [sys.executable, __file__, "--server", kind, "--folder", str(folder), *more]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT})
    try:
        assert child.stdout is not None
        yield int(child.stdout.readline()), child.pid
    finally:
        child.terminate()
        child.communicate()


def request(path: str, kind: str, body: bytes, family_id: str) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nX-Family-Id: {family_id}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> bytes:
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return await reader.readexactly(length)


def ask(port: int, asked: list[bytes], count: int, rate: float = 0.0, connections: int = CONNECTIONS) -> list[float]:
    """Seconds that each of `count` requests took: as fast as it goes, or `rate` a second, waiting counted."""
    taken: list[float] = []

    async def run() -> None:
        numbers = iter(range(count))
        began = time.perf_counter()

        async def one() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in numbers:
                due = began + number / rate if rate else time.perf_counter()
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                await exchange(reader, writer, asked[number % len(asked)])
                taken.append(time.perf_counter() - due)
            writer.close()

        await asyncio.gather(*(one() for _ in range(connections)))

    asyncio.run(run())
    return taken


def megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def pictures() -> list[bytes]:
    rng, files = np.random.default_rng(0), []
    for _ in range(8):
        content = io.BytesIO()
        small = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        small.resize((160, 120), Image.Resampling.BICUBIC).save(content, "JPEG", quality=85)
        files.append(content.getvalue())
    return files


def questions(queries: torch.Tensor, family_id: str) -> dict[str, list[bytes]]:
    """Requests for each of `queries`, as bytes and as JSON."""
    texts = [json.dumps({"vector": row.tolist(), "family_id": family_id, "k": K}).encode() for row in queries]
    return {
        "raw": [
            request(f"/v1/search?k={K}", "application/octet-stream", row.numpy().tobytes(), family_id)
            for row in queries
        ],
        "JSON": [request("/v1/search", "application/json", text, family_id) for text in texts],
    }


def run(folder: Path, told: argparse.Namespace) -> None:
    family_id = prepare(folder, told.count)
    queries = unit(256, 1_000_000)
    asked = questions(queries, family_id)
    raw = asked["raw"]
    bare = faiss.IndexFlatIP(DIMENSIONS)
    for start in range(0, told.count, 50_000):
        bare.add(unit(min(50_000, told.count - start), start).numpy())
    many, few = (200, 20) if told.quick else (1000, 100)
    with ExitStack() as stack:
        port, _ = stack.enter_context(served(folder, "service"))
        single, _ = stack.enter_context(served(folder, "single"))
        answer = asyncio.run(first(port, raw[0]))
        idle, _ = stack.enter_context(served(folder, "empty", answer.hex()))
        rounds = 3 if told.quick else 5
        seconds = medians(
            {
                "faiss": lambda: [bare.search(queries[place : place + 1].numpy(), K) for place in range(few)],
                "single": lambda: ask(single, raw, many),
                **{f"empty {kind}": lambda kind=kind: ask(idle, asked[kind], many) for kind in asked},
                **{f"service {kind}": lambda kind=kind: ask(port, asked[kind], many) for kind in asked},
            },
            rounds,
        )
        rates = {name: (few if name == "faiss" else many) / value for name, value in seconds.items()}
        for name, rate in rates.items():
            print(f"{name:<14}{rate:10.0f} queries a second")
        limits = {kind: min(rates["faiss"], rates[f"empty {kind}"]) for kind in asked}
        half = rates["service raw"] / 2
        alone = median(ask(port, raw, few, connections=1))
        latencies = sorted(ask(port, raw, 2 * many, half))
        middle, late = latencies[len(latencies) // 2], latencies[int(0.99 * len(latencies))]
        print(f"alone: median {1000 * alone:.1f} ms")
        print(f"at {half:.0f} a second: median {1000 * middle:.1f} ms, p99 {1000 * late:.1f} ms")
        images(port, family_id, folder, few)
    print(f"alone_over_faiss: {alone * rates['faiss']:.2f}")
    print(f"batched_over_single: {rates['service raw'] / rates['single']:.2f}")
    for kind, limit in limits.items():
        print(f"{kind.lower()}_over_limit: {rates[f'service {kind}'] / limit:.2f}")
    print(f"qps_over_limit: {min(rates[f'service {kind}'] / limit for kind, limit in limits.items()):.2f}")
    print(f"p99_over_median: {late / middle:.2f}")


async def first(port: int, asked: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = await exchange(reader, writer, asked)
    writer.close()
    return answer


def images(port: int, family_id: str, folder: Path, count: int) -> None:
    """Pictures a second through the service, and forward passes a second here."""
    asked = [request("/v1/search/image", "image/jpeg", file, family_id) for file in pictures()]
    network = ServedModel.open(str(folder / "model.prun")).member()
    batch = torch.randn(1, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)

    @torch.inference_mode()
    def forward() -> None:
        for _ in range(count):
            network(batch)

    seconds = medians({"forward": forward, "images": lambda: ask(port, asked, count, connections=8)}, 3)
    print(f"pictures: {count / seconds['images']:.1f} a second, forward passes: {count / seconds['forward']:.1f}")
    print(f"images_over_forward: {seconds['forward'] / seconds['images']:.2f}")


def memory(folder: Path, told: argparse.Namespace) -> None:
    """What the service holds after each tenth of the requests, which are raw and JSON by turns."""
    asked = questions(unit(256, 1_000_000), prepare(folder, told.count))
    tenth = told.memory_over // 10
    mixed = [one for pair in zip(*asked.values(), strict=True) for one in pair]
    held = []
    with served(folder, "service") as (port, pid):
        for part in range(1, 11):
            ask(port, mixed, tenth)
            held.append(megabytes(pid))
            print(f"{part * tenth:>9,} requests{held[-1]:10.1f} MB", flush=True)
    print(f"megabytes_grown: {held[-1] - held[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000, help="vectors in the gallery")
    parser.add_argument("--memory-over", type=int, metavar="REQUESTS", help="watch the memory of the service instead")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--server", choices=["service", "single", "empty"], help=argparse.SUPPRESS)
    told, _ = parser.parse_known_args()
    if told.server:
        serve(told.folder, told.server)
        return
    with tempfile.TemporaryDirectory(dir=told.folder) as folder:
        (memory if told.memory_over else run)(Path(folder), told)


if __name__ == "__main__":
    main()
