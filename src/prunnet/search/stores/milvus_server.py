"""Speaks to Milvus: its two collections, rows read and written, and errors of one line."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from prunnet.errors import MissingExtraError, PrunNetError, SearchError, StoreError
from prunnet.search.manifest import Count
from prunnet.search.stores.address import Address
from prunnet.search.stores.server import Description

try:
    from grpc import RpcError
    from pymilvus import DataType, MilvusClient
    from pymilvus.exceptions import MilvusException
except ImportError:
    raise MissingExtraError("pymilvus", "milvus", "a gallery in Milvus") from None

ROWS_AT_ONCE = 1000
SECONDS = 60.0  # for one answer of the server
_LOG = logging.getLogger("pymilvus")


class MilvusDescription(Description):
    """batch: the newest addition that counts; `settled` when what it replaced is deleted."""

    revision: Count = 0
    batch: Count = 0
    settled: bool = True


class Server:
    """The client of a server, and the two collections that its address names."""

    def __init__(self, address: Address) -> None:
        self.name = address.path.strip("/")
        self.state = f"{self.name}_prunnet"
        self.place = address.shown
        self._address = address
        self._client: Any = None
        self.lock = RLock()
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,200}", self.name):
            raise SearchError(f"{self.place} names no collection: milvus://host:19530/name, of letters, digits and _")

    @contextmanager
    def speaking(self) -> Iterator[Any]:
        """The client; what fails is one line without the password."""
        with self.lock:
            level = _LOG.level
            _LOG.setLevel(logging.CRITICAL)  # it tells errors with their traceback, beside raising them
            try:
                if self._client is None:
                    secure, _ = self._address.take("secure", "false")
                    uri = f"{'https' if secure == 'true' else 'http'}://{self._address.host}"
                    self._client = MilvusClient(
                        uri=uri, user=self._address.user, password=self._address.password, timeout=10
                    )
                yield self._client
            except PrunNetError:
                raise
            except (MilvusException, RpcError, TypeError, ValueError) as error:
                line = (str(getattr(error, "message", "") or error).strip() or type(error).__name__).splitlines()[0]
                raise StoreError(f"{self.place}: {self._address.without_secrets(line)}") from None
            finally:
                _LOG.setLevel(level)

    def query(self, filter: str, fields: list[str], collection: str | None = None) -> list[dict[str, Any]]:
        """Rows as of now."""
        with self.speaking() as client:
            return list(
                client.query(
                    collection or self.name,
                    filter=filter,
                    output_fields=fields,
                    consistency_level="Strong",
                    timeout=SECONDS,
                )
            )

    def count(self, filter: str) -> int:
        return int(self.query(filter, ["count(*)"])[0]["count(*)"])

    def pages(self, filter: str, fields: list[str]) -> Iterator[list[dict[str, Any]]]:
        """All rows that fit."""
        with self.speaking() as client:
            iterator = client.query_iterator(
                self.name,
                filter=filter,
                output_fields=fields,
                batch_size=ROWS_AT_ONCE,
                consistency_level="Strong",
                timeout=SECONDS,
            )
            try:
                while page := iterator.next():
                    yield page
            finally:
                iterator.close()

    def insert(self, rows: list[dict[str, Any]], collection: str | None = None) -> None:
        with self.speaking() as client:
            client.insert(collection or self.name, rows, timeout=SECONDS)

    def delete(self, filter: str, collection: str | None = None) -> None:
        with self.speaking() as client:
            client.delete(collection or self.name, filter=filter, timeout=SECONDS)

    def description(self) -> MilvusDescription | None:
        """The newest, if there is one."""
        with self.speaking() as client:
            if not client.has_collection(self.state, timeout=SECONDS):
                return None
            rows = self.query("revision >= 0", ["revision", "document"], self.state)
        if not rows:
            return None
        newest = max(rows, key=lambda row: int(row["revision"]))
        return MilvusDescription.read(json.loads(newest["document"]), self.place)

    def describe(self, description: MilvusDescription) -> None:
        """One row, after which the description is that; older ones are deleted."""
        row = {"revision": description.revision, "document": description.text(), "unused": [0.0, 0.0]}
        self.insert([row], self.state)
        self.delete(f"revision < {description.revision}", self.state)


def create_collections(client: Any, server: Server, dimension: int) -> None:
    """The two of an index, empty."""
    _create(client, server.state, _state_schema(client), "unused", "FLAT", {})
    _create(client, server.name, _schema(client, dimension), "embedding", "HNSW", {"M": 16, "efConstruction": 200})


def _create(client: Any, name: str, schema: Any, field: str, index: str, parameters: dict[str, int]) -> None:
    """A collection that is indexed and can be asked."""
    indexes = client.prepare_index_params()
    indexes.add_index(field, index_type=index, metric_type="IP", params=parameters)
    client.create_collection(name, schema=schema, num_shards=1, consistency_level="Session", timeout=SECONDS)
    client.create_index(name, indexes, timeout=SECONDS)
    client.load_collection(name, timeout=SECONDS)


def _schema(client: Any, dimension: int) -> Any:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("pk", DataType.VARCHAR, is_primary=True, max_length=64)
    for name in ("key", "batch", "generation"):
        schema.add_field(name, DataType.INT64)
    schema.add_field("id", DataType.VARCHAR, max_length=32_768)
    schema.add_field("capacity", DataType.DOUBLE)
    schema.add_field("metadata", DataType.JSON)
    schema.add_field("facts", DataType.ARRAY, element_type=DataType.INT64, max_capacity=64)
    schema.add_field("embedding", DataType.FLOAT_VECTOR, dim=dimension)
    return schema


def _state_schema(client: Any) -> Any:
    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field("revision", DataType.INT64, is_primary=True)
    schema.add_field("document", DataType.VARCHAR, max_length=65_535)
    schema.add_field("unused", DataType.FLOAT_VECTOR, dim=2)  # without a vector there is no collection
    return schema
