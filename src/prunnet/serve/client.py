"""`prunnet.Client`: downloads as much of the family as is wanted, embeds here, and asks the service."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from io import BytesIO
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prunnet.errors import CapacityError, FamilyError, ServiceError
from prunnet.network import Embeddings
from prunnet.network.capacity import format_capacity
from prunnet.network.preprocessing import Picture
from prunnet.runtime import Runtime

Value = str | int | float | bool
TIMEOUT = 60.0


@dataclass(frozen=True)
class Found:
    """An image of the gallery: how similar it is, and what is known about it.

    image: where a small picture of it is, if there is one.
    generation, capacity: the family and the member that made its vector.
    """

    id: str
    score: float
    label: Value | None
    metadata: Mapping[str, Value]
    image: str | None
    generation: str
    capacity: float


class Client:
    """Asks a service that `prunnet serve` has started.

    url: where it is, such as "http://127.0.0.1:8000".
    capacity: of the member that embeds here; default: the smallest. Only its bytes are downloaded.
    token: if the service wants one.

    Example:
        client = prunnet.Client("http://127.0.0.1:8000", capacity=0.1)
        nearest, *others = client.search(photo, k=5)[0]
    """

    def __init__(self, url: str, capacity: float | None = None, *, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._content = BytesIO()
        self.family: dict[str, Any] = self._json("GET", "/v1/family")
        """What the service says about the family."""
        self._sizes = {float(known["capacity"]): int(known["bytes"]) for known in self.family["capacities"]}
        wanted = min(self._sizes) if capacity is None else capacity
        self._download(wanted)
        self._runtime = Runtime(self._content, wanted)

    @property
    def capacity(self) -> float:
        """Of the member that embeds here."""
        return self._runtime.capacity

    @property
    def family_id(self) -> str:
        """Of the space that its embeddings lie in."""
        return self._runtime.family_id

    @property
    def downloaded(self) -> int:
        """How many bytes of the family are here."""
        return len(self._content.getbuffer())

    def upgrade(self, capacity: float) -> "Client":
        """Embed by another member from now on, downloading only what is not here yet."""
        self._download(capacity)
        self._runtime.upgrade(capacity)
        return self

    def encode(self, images: Sequence[Picture] | Picture) -> Embeddings:
        """Embed pictures here."""
        return self._runtime.encode(images)

    def search(
        self,
        images: Sequence[Picture] | Picture | Embeddings,
        k: int = 10,
        where: Mapping[str, Value] | None = None,
    ) -> list[list[Found]]:
        """For each picture the `k` nearest of the gallery, nearest first; only the vectors are sent.

        where: only images whose metadata have these values.
        """
        asked = images if isinstance(images, Embeddings) else self.encode(images)
        told = {"vectors": asked.vectors.tolist(), "family_id": asked.family_id, "k": k, "where": dict(where or {})}
        answered = self._json("POST", "/v1/search", told)
        return [[Found(**hit) for hit in hits] for hits in answered.get("queries") or [answered["answers"]]]

    def add(
        self,
        embeddings: Embeddings,
        ids: Sequence[str],
        metadata: Sequence[Mapping[str, Value]] | Mapping[str, Value] | None = None,
        *,
        replace: bool = True,
    ) -> int:
        """Add vectors to a gallery that is served writable; returns how many it holds then."""
        told = {
            "ids": list(ids),
            "vectors": embeddings.vectors.tolist(),
            "family_id": embeddings.family_id,
            "capacity": embeddings.capacity,
            "metadata": metadata,
            "replace": replace,
        }
        return int(self._json("POST", "/v1/vectors", told)["count"])

    def remove(self, ids: Sequence[str]) -> int:
        """Remove vectors; returns how many are left."""
        return int(self._json("DELETE", "/v1/vectors", {"ids": list(ids)})["count"])

    def __repr__(self) -> str:
        return f"Client({self._url!r}, capacity={self.capacity:g}, family_id={self.family_id!r})"

    def _download(self, capacity: float) -> None:
        if capacity not in self._sizes:
            have = ", ".join(map(format_capacity, self._sizes))
            raise CapacityError(f"{self._url} has no member at {capacity:g}; it has {have}")
        start, end = self._content.seek(0, 2), self._sizes[capacity]
        if end > start:
            piece = self._ask("GET", self.family["model"], headers={"Range": f"bytes={start}-{end - 1}"})
            if len(piece) != end - start:
                raise ServiceError(f"{self._url} sent {len(piece)} of {end - start} bytes; ask again")
            self._content.write(piece)

    def _json(self, method: str, path: str, content: Any = None) -> Any:
        body = None if content is None else json.dumps(content).encode()
        try:
            return json.loads(self._ask(method, path, body, {"Content-Type": "application/json"} if body else {}))
        except ValueError:
            raise ServiceError(f"{self._url}{path} is no service of prunnet: its answer is no JSON") from None

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        fields = {**(headers or {}), **({"Authorization": f"Bearer {self._token}"} if self._token else {})}
        try:
            with urlopen(Request(self._url + path, body, fields, method=method), timeout=TIMEOUT) as answer:
                content: bytes = answer.read()
                return content
        except HTTPError as error:
            with error:
                kind = FamilyError if error.code == 409 else ServiceError
                raise kind(f"{self._url}: {_detail(error)}") from None
        except (OSError, HTTPException, ValueError) as error:
            raise ServiceError(f"{self._url} cannot be asked ({error})") from None


def _detail(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError, OSError, HTTPException):
        return f"status {error.code}"
