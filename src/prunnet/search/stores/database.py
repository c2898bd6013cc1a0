"""A connection to PostgreSQL: made again when it was lost, and whatever fails is one line without the password."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

from prunnet.errors import MissingExtraError, StoreError, first_line
from prunnet.search.stores.address import Address

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError:
    raise MissingExtraError("psycopg", "postgresql", "a gallery in PostgreSQL") from None

DEFAULTS = {"connect_timeout": 10, "keepalives_idle": 30, "application_name": "prunnet"}


class Database:
    """What runs statements in which `{name}` stands for one of `names`, quoted."""

    def __init__(self, address: Address, shown: str, names: dict[str, str]) -> None:
        self.place = shown
        self._address = address
        self._names = {name: sql.Identifier(value) for name, value in names.items()}
        self._connection: Any = None
        self._settings: dict[str, str] = {}
        self._held = 0
        self._lock = RLock()

    def rows(self, statement: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """What the statement gives back."""
        with self._speaking() as connection:
            cursor = connection.execute(self._text(statement), arguments or None)
            found: list[Any] = cursor.fetchall() if cursor.description else []
            return found

    def value(self, statement: str, arguments: Sequence[Any] = ()) -> Any:
        """The first column of its first row; None if there is none."""
        found = self.rows(statement, arguments)
        return found[0][0] if found else None

    def pages(self, statement: str, rows: int) -> Iterator[list[Any]]:
        """All that a statement gives back, as of one moment."""
        with self._speaking() as connection, connection.transaction(), connection.cursor(name="prunnet") as cursor:
            cursor.execute(self._text(statement))
            while page := cursor.fetchmany(rows):
                yield page

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is written within counts, or nothing."""
        with self._speaking() as connection, connection.transaction(), self._holding():
            yield

    @contextmanager
    def session(self) -> Iterator[None]:
        """One connection for all within: if it is lost, no other is made."""
        with self._speaking(), self._holding():
            yield

    def let_go(self, function: str, arguments: Sequence[Any]) -> None:
        """Call what gives up a lock; where the connection is lost, so is the lock."""
        if not self._connection.closed:
            self.rows(f"SELECT {function}", arguments)

    def set(self, name: str, value: object) -> None:
        """A setting of this connection."""
        with self._speaking():
            if self._settings.get(name) != str(value):
                self.rows("SELECT set_config(%s, %s, false)", [name, str(value)])
                self._settings[name] = str(value)

    @contextmanager
    def _holding(self) -> Iterator[None]:
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    @contextmanager
    def _speaking(self) -> Iterator[Any]:
        with self._lock:
            try:
                if self._connection is None or (self._connection.closed and not self._held):
                    self._connect()
                yield self._connection
            except psycopg.Error as error:
                raise self._refusal(error) from None

    def _connect(self) -> None:
        settings = {**DEFAULTS, **conninfo_to_dict(str(self._address))}
        # Without prepared statements a pooler may stand between, and every plan knows what is asked for.
        self._connection = psycopg.connect(**settings, autocommit=True, prepare_threshold=None)
        self._settings = {}

    def _refusal(self, error: Exception) -> StoreError:
        line = self._address.without_secrets(first_line(error))
        if self._connection is not None and self._connection.closed:
            line = f"the server stopped answering ({line}); what was being written is there whole or not at all"
        return StoreError(f"{self.place}: {line}")

    def _text(self, statement: str) -> Any:
        return sql.SQL(statement).format(**self._names)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()
