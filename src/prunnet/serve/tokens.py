"""Who may ask: bearer tokens from a file, and the cookie that a browser gets for one."""

import hashlib
import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.datastructures import Headers

from prunnet.errors import ServiceError

COOKIE = "prunnet_session"
SHORTEST = 16


class Tokens:
    """The tokens of a file, one on each line; lines that begin with # are left out."""

    def __init__(self, file: Path) -> None:
        try:
            lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise ServiceError(f"{file}: the tokens cannot be read ({error})") from None
        tokens = [line for line in lines if line and not line.startswith("#")]
        if not tokens or min(map(len, tokens)) < SHORTEST:
            raise ServiceError(
                f"{file}: a token is a line of at least {SHORTEST} characters, and there is at least one"
            )
        self._digests = [_digest(token) for token in tokens]
        self.session = secrets.token_urlsafe(32)
        """What the cookie holds; another start of the service has another."""

    def accept(self, headers: Headers, *, cookie: bool) -> bool:
        """Whether a request carries a token or, if that is enough, the `cookie`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = _digest(token.strip())
        known = [hmac.compare_digest(given, digest) for digest in self._digests]  # all of them, whichever it is
        if scheme.lower() == "bearer" and any(known):
            return True
        return cookie and hmac.compare_digest(_digest(_cookie(headers)), _digest(self.session))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
