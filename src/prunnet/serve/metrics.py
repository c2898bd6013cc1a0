"""What the service has done, as Prometheus reads it (text format 0.0.4)."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """How often values lay up to each bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str = "") -> Iterator[str]:
        comma, total = "," if labels else "", 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {self._sum:.6f}"
        yield f"{name}_count{braces} {total}"


class Metrics:
    """Requests by route and status, how long they took, and how many were searched or embedded together."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.seconds: dict[str, Histogram] = {}
        self.searched = Histogram(SIZES)
        self.embedded = Histogram(SIZES)
        self.running = 0

    def finished(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self.requests[method, route, status] += 1
        self.seconds.setdefault(route, Histogram(SECONDS)).observe(seconds)

    def text(self, vectors: int) -> str:
        """All of it, with the number of vectors in the gallery."""
        return "".join(f"{line}\n" for line in self._lines(vectors))

    def _lines(self, vectors: int) -> Iterator[str]:
        yield from _head("prunnet_requests_total", "counter", "Requests that were answered.")
        for (method, route, status), count in sorted(self.requests.items()):
            labels = f'method="{method}",route="{route}",status="{status}"'
            yield f"prunnet_requests_total{{{labels}}} {count}"
        yield from _head("prunnet_request_seconds", "histogram", "From the first byte of a request to its answer.")
        for route, seconds in sorted(self.seconds.items()):
            yield from seconds.lines("prunnet_request_seconds", f'route="{route}"')
        for name, sizes, done in (
            ("prunnet_search_batch", self.searched, "searched"),
            ("prunnet_embed_batch", self.embedded, "embedded"),
        ):
            yield from _head(name, "histogram", f"Requests that were {done} together.")
            yield from sizes.lines(name)
        yield from _head("prunnet_requests_running", "gauge", "Requests that are being answered.")
        yield f"prunnet_requests_running {self.running}"
        yield from _head("prunnet_gallery_vectors", "gauge", "Vectors in the gallery.")
        yield f"prunnet_gallery_vectors {vectors}"


def _head(name: str, kind: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
