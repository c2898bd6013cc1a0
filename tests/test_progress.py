"""Long work says how far it is, where there is no terminal too."""

import pytest

from prunnet import _progress


def test_a_first_item_that_takes_long_has_no_estimate_yet(monkeypatch, capsys) -> None:
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", -1)  # a line for every item
    assert list(_progress.track(iter("abc"), "packing", 3)) == ["a", "b", "c"]
    first, second, _ = capsys.readouterr().err.splitlines()
    assert first == "packing: 0 of 3"
    assert second == "packing: 1 of 3, 0 s left"


@pytest.mark.parametrize("items", ["ab", iter("ab")], ids=["known", "unknown"])
def test_how_many_there_are_is_said_if_it_is_known(monkeypatch, capsys, items) -> None:
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", -1)
    list(_progress.track(items, "packing"))
    first, _ = capsys.readouterr().err.splitlines()
    assert first == ("packing: 0 of 2" if items == "ab" else "packing: 0")
