"""What can be wrong with data."""

from pathlib import Path

from prunnet.errors import PrunNetError


class DataError(PrunNetError, ValueError):
    """A data set that is missing, malformed or unfit for what is asked of it."""

    @classmethod
    def at(cls, file: Path | str, line: int, problem: str) -> "DataError":
        """An error that points at a line of a file, as compilers do."""
        return cls(f"{file}:{line}: {problem}")


class UnreadableImageError(DataError):
    """An image file that is missing, or damaged, or no image."""

    def __init__(self, message: str) -> None:
        # torch re-raises a worker's error with the worker's traceback as its message; the last line is ours.
        super().__init__(message.rsplit("UnreadableImageError: ", 1)[-1].strip())
