"""An address is taken apart and put together again, and its password never shown."""

import sys

import pytest

from prunnet.errors import MissingExtraError, SearchError
from prunnet.search.places import engine_for, shown
from prunnet.search.stores.address import Address
from prunnet.search.stores.texts import restored, restored_metadata, stored, stored_metadata

SECRET = "s3%2Fcret"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"postgresql://me:{SECRET}@host:5432/shop?table=photos", "postgresql://me@host:5432/shop?table=photos"),
        (f"postgresql://host/shop?user=me&password={SECRET}&table=a", "postgresql://host/shop?user=me&table=a"),
        (f"postgresql:///shop?host=/run&sslpassword={SECRET}", "postgresql:///shop?host=/run"),
        (f"milvus://me:{SECRET}@host:19530/shop", "milvus://me@host:19530/shop"),
        ("milvus://host:19530/shop", "milvus://host:19530/shop"),
    ],
)
def test_what_is_shown_has_no_password(text: str, expected: str) -> None:
    address = Address.parse(text)
    assert str(address) == text and address.shown == shown(text) == expected
    told = address.without_secrets(f"cannot log in with {SECRET} or s3/cret")
    assert "cret" not in told or not address.password


def test_parts_are_read() -> None:
    address = Address.parse(f"milvus://me:{SECRET}@host:19530/shop?secure=true")
    assert (address.user, address.password, address.host, address.path) == ("me", "s3/cret", "host:19530", "/shop")
    value, rest = address.take("secure", "false")
    assert value == "true" and str(rest) == f"milvus://me:{SECRET}@host:19530/shop"


@pytest.mark.parametrize("text", ["postgresql://me:s3/cret@host/shop", "milvus://me:s3?cret@host/shop"])
def test_a_password_that_is_not_encoded_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SearchError, match="is percent-encoded") as error:
        shown(text)
    assert "cret" not in str(error.value)


def test_other_addresses_are_no_galleries() -> None:
    for text in ("mysql://me:s3cret@host/shop", "https://host/shop"):
        with pytest.raises(SearchError, match=r"postgresql://… or milvus://…; found \w+://…$"):
            engine_for(text)


@pytest.mark.parametrize("text", ["plain/ü.jpg", "\x00", "\udcff", "\x1b", "\x1bdcff", "a\x1b0000\x00", "日本\ud800"])
def test_any_text_comes_back_from_what_a_server_can_keep(text: str) -> None:
    kept = stored(text)
    assert kept.encode() and "\x00" not in kept and restored(kept) == text
    assert restored_metadata(stored_metadata({text: text, "n": 7})) == {text: text, "n": 7}


@pytest.mark.parametrize(
    ("address", "package", "modules"),
    [
        ("postgresql://host/shop", "psycopg", ["database", "postgresql"]),
        ("milvus://host:19530/shop", "pymilvus", ["milvus_server", "milvus"]),
    ],
)
def test_without_its_extra_a_store_says_what_to_install(address, package, modules, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for name in modules:
        monkeypatch.delitem(sys.modules, f"prunnet.search.stores.{name}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"needs {package}: pip install 'prunnet\[{modules[-1]}\]'"):
        engine_for(address)
