"""How much one request, and all of them together, may ask of the service."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What is beyond them is refused with one sentence: 413, 422, or 503 where it may be asked again later."""

    body: int = 16_000_000
    """Bytes of a request."""
    bodies: int = 256_000_000
    """Bytes of all requests that are being answered."""
    k: int = 100
    """Answers to a query."""
    queries: int = 64
    """Queries in a request."""
    vectors: int = 10_000
    """Vectors added or removed by a request."""
    conditions: int = 8
    """Of a filter."""
    seconds: float = 30.0
    """From the first byte of a request to the first of its answer."""
    requests: int = 256
    """Answered at the same time."""
