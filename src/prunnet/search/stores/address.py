"""The address of a store, taken apart so that its password is never shown."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from prunnet.errors import SearchError

SECRET = re.compile(r"[^=]*(password|token|key)[^=]*=", re.IGNORECASE)


@dataclass(frozen=True)
class Address:
    """`scheme://user:password@host:port/path?query`; `shown` is the same without what is secret."""

    scheme: str
    authority: str
    path: str
    query: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Address":
        scheme, _, rest = text.partition("://")
        found = re.fullmatch(r"([^/?#]*)([^?]*)\??(.*)", rest, re.DOTALL)
        assert found is not None
        authority, path, query = found.groups()
        if "@" not in authority and "@" in rest and ":" in authority:
            raise SearchError(f"in a {scheme}:// address a password is percent-encoded: / is %2F, ? is %3F, # is %23")
        return cls(scheme.lower(), authority, path, tuple(part for part in query.split("&") if part))

    def __str__(self) -> str:
        return self._joined(self.authority, self.query)

    @property
    def shown(self) -> str:
        user, at, host = self.authority.rpartition("@")
        public = tuple(part for part in self.query if not SECRET.match(part))
        return self._joined(user.partition(":")[0] + at + host, public)

    def _joined(self, authority: str, query: tuple[str, ...]) -> str:
        return f"{self.scheme}://{authority}{self.path}" + (f"?{'&'.join(query)}" if query else "")

    @property
    def user(self) -> str:
        return unquote(self.authority.rpartition("@")[0].partition(":")[0])

    @property
    def password(self) -> str:
        return unquote(self.authority.rpartition("@")[0].partition(":")[2])

    @property
    def host(self) -> str:
        """With its port."""
        return self.authority.rpartition("@")[2]

    def take(self, name: str, otherwise: str) -> tuple[str, "Address"]:
        """The value of `name` in the query, and the address without it."""
        own = [part for part in self.query if part.startswith(f"{name}=")]
        rest = tuple(part for part in self.query if part not in own)
        value = unquote(own[-1].partition("=")[2]) if own else otherwise
        return value, Address(self.scheme, self.authority, self.path, rest)

    def without_secrets(self, text: str) -> str:
        """`text`, which others wrote, with what is secret blotted out."""
        secrets = [self.authority.rpartition("@")[0].partition(":")[2], self.password]
        secrets += [part.partition("=")[2] for part in self.query if SECRET.match(part)]
        for secret in filter(None, secrets):
            text = text.replace(secret, "…")
        return text
