import pytest

from prunnet._files import replace_folder, write_atomically


def test_a_file_appears_whole_or_not_at_all(tmp_path) -> None:
    target = tmp_path / "deep" / "file.txt"
    with write_atomically(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    with pytest.raises(RuntimeError), write_atomically(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path) -> None:
    target = tmp_path / "folder"
    with replace_folder(target) as staged:
        (staged / "a").write_text("1")
    with replace_folder(target) as staged:
        (staged / "a").write_text("2")
        (staged / "b").write_text("2")
    (target / "mine").write_text("kept")
    with pytest.raises(RuntimeError), replace_folder(target) as staged:
        (staged / "a").write_text("3")
        raise RuntimeError
    with replace_folder(target) as staged:
        (staged / "a").write_text("4")
    assert {path.name: path.read_text() for path in target.iterdir()} == {"a": "4", "b": "2", "mine": "kept"}
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
