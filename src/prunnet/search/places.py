"""Which engine keeps an index, by the place that is named: a folder, or the address of a store."""

import re
from pathlib import Path

from prunnet.errors import SearchError
from prunnet.search.protocol import Place, VectorIndex
from prunnet.search.stores.address import Address

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


def engine_for(place: Place) -> type[VectorIndex]:
    """The class that opens and makes indexes there."""
    scheme = _SCHEME.match(place) if isinstance(place, str) else None
    if scheme is None:
        from prunnet.search.folder import FolderIndex

        return FolderIndex
    if scheme[1] in ("postgresql", "postgres"):
        from prunnet.search.stores.postgresql import PostgresIndex

        return PostgresIndex
    if scheme[1] == "milvus":
        from prunnet.search.stores.milvus import MilvusIndex

        return MilvusIndex
    raise SearchError(f"a gallery is in a folder, postgresql://… or milvus://…; found {scheme[0]}…")


def shown(place: Place) -> str:
    """`place` without a password."""
    return Address.parse(place).shown if isinstance(place, str) and _SCHEME.match(place) else str(Path(place))
