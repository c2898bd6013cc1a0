"""What processes that are killed were doing. Apart from the tests, so that such a process imports nothing else."""

from pathlib import Path

from prunnet._files import replace_folder, write_text


def write_a_file(file: Path, text: str) -> None:
    write_text(file, text)


def write_a_folder(folder: Path, text: str) -> None:
    with replace_folder(folder) as staged:
        (staged / "first").write_text(text)
        (staged / "inner").mkdir()
        write_text(staged / "inner" / "second", text)
