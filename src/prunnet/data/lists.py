"""Reading the lists that data sets come with. Every complaint names the file and the line."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunnet._pictures import SUFFIXES
from prunnet.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a list: its fields by column name, and where it stands."""

    file: Path
    number: int
    fields: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.fields[column]

    def error(self, problem: str) -> DataError:
        """An error that points at this line."""
        return DataError.at(self.file, self.number, problem)

    def integer(self, column: str) -> int:
        """The whole number in `column`."""
        try:
            return int(self.fields[column])
        except ValueError:
            raise self.error(f"{column} must be a whole number, found {self.fields[column]!r}") from None

    def numbers(self, columns: Sequence[str]) -> tuple[float, ...]:
        """The numbers in `columns`."""
        try:
            return tuple(float(self.fields[column]) for column in columns)
        except ValueError:
            text = " ".join(self.fields[column] for column in columns)
            raise self.error(f"{', '.join(columns)} must be numbers, found {text!r}") from None

    def image(self, path: Path) -> Path:
        """`path`, if there is such a file."""
        if not path.is_file():
            raise self.error(f"the image {path} does not exist")
        return path


def require_folder(folder: Path, dataset: str) -> Path:
    """`folder`, if there is one."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; `prunnet data list` shows what {dataset} needs")
    return folder


def require_file(file: Path, dataset: str) -> Path:
    """`file`, if there is one."""
    if not file.is_file():
        raise DataError(f"{file}: no such file; `prunnet data list` shows what {dataset} needs")
    return file


def read_list(file: Path, columns: Sequence[str], *, skip: int = 0, header: bool = False) -> Iterator[Row]:
    """Rows of a list separated by white space; `skip` lines come first, then the column names if there is a `header`.

    The last column takes the rest of the line, for names with spaces in them.
    """
    for number, line in _lines(file):
        if number <= skip or not line.strip():
            continue
        values = line.strip().split(maxsplit=len(columns) - 1)
        if header and number == skip + 1:
            if values != list(columns):
                raise DataError.at(file, number, f"the header must be {' '.join(columns)!r}, found {line.strip()!r}")
            continue
        if len(values) != len(columns):
            raise DataError.at(file, number, f"expected {' '.join(columns)}, found {line.strip()!r}")
        yield Row(file, number, dict(zip(columns, values, strict=True)))


def read_csv(file: Path, required: Sequence[str]) -> Iterator[Row]:
    """Rows of a comma-separated file whose first line names the columns, the `required` ones among them."""
    reader = csv.reader(text for _, text in _lines(file))
    names: list[str] | None = None
    try:
        for values in reader:
            if names is None:
                names = check_columns(file, [name.strip() for name in values], required)
            elif values:
                if len(values) != len(names):
                    problem = f"expected {len(names)} fields ({','.join(names)}), found {len(values)}"
                    raise DataError.at(file, reader.line_num, problem)
                yield Row(file, reader.line_num, dict(zip(names, values, strict=True)))
    except csv.Error as error:
        raise DataError.at(file, reader.line_num, f"not a comma-separated line ({error})") from None
    if names is None:
        raise DataError.at(file, 1, f"the file is empty; its first line must name the columns {','.join(required)}")


def check_columns(file: Path, names: list[str], required: Sequence[str]) -> list[str]:
    """`names`, if the `required` are among them and none is there twice."""
    missing = [name for name in required if name not in names]
    if missing:
        raise DataError.at(file, 1, f"the header lacks {', '.join(missing)}; found {','.join(names)!r}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError.at(file, 1, f"the header names {twice!r} twice; found {','.join(names)!r}")
    return names


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            yield from enumerate(stream, 1)
    except FileNotFoundError:
        raise DataError(f"{file}: no such file") from None
    except UnicodeDecodeError:
        raise DataError(f"{file}: not a text file in UTF-8") from None


def is_image(path: Path) -> bool:
    """Whether the name is that of an image, and not of the hidden twin some systems leave in archives."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def list_images(folder: Path) -> list[Path]:
    """The image files directly in `folder`, by name."""
    return sorted(path for path in folder.iterdir() if is_image(path))


def require_rows(rows: Iterable[Row], file: Path) -> list[Row]:
    """All of `rows`, of which there must be some."""
    listed = list(rows)
    if not listed:
        raise DataError(f"{file}: lists no images")
    return listed
