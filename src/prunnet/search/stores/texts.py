"""Texts as a server can keep them: Unicode without NUL and without the surrogates of paths that are no text.

Such a character, and the escape itself, becomes U+001B and four hexadecimal digits; any other text stays what it is.
"""

import re
from collections.abc import Mapping

from prunnet.search.columns import Metadata, Value

_UNFIT = re.compile("[\x00\x1b\ud800-\udfff]")
_ESCAPED = re.compile("\x1b([0-9a-f]{4})")


def stored(text: str) -> str:
    """What the server keeps."""
    return _UNFIT.sub(lambda found: f"\x1b{ord(found[0]):04x}", text)


def restored(text: str) -> str:
    """What was stored."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def stored_metadata(metadata: Metadata) -> dict[str, Value]:
    return {stored(key): stored(value) if isinstance(value, str) else value for key, value in metadata.items()}


def restored_metadata(metadata: Mapping[str, Value]) -> dict[str, Value]:
    return {restored(key): restored(value) if isinstance(value, str) else value for key, value in metadata.items()}
