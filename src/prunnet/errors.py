"""What a user can get wrong. Each message is one line that says what is wrong and what to do."""

from pathlib import Path


class PrunNetError(Exception):
    """Base of every error this project raises on purpose; the command line prints it without a traceback."""

    exit_code = 2


class CapacityError(PrunNetError, ValueError):
    """A capacity, or a budget, that no subnetwork can have."""


class ModuleError(PrunNetError, ValueError):
    """A module that cannot become a prunable network."""


class ImageError(PrunNetError, ValueError):
    """Images of the wrong shape, type or number."""


class FamilyError(PrunNetError):
    """A stored network that cannot be written, or is damaged, foreign or too new; or two families that do not mix."""


class DamagedError(FamilyError):
    """A file that is not what was written: cut off, changed or without the checksum it should have."""


class KindError(PrunNetError):
    """Something that is asked of a kind of network that cannot do it."""


class BusyError(PrunNetError):
    """A folder that another process is writing."""


class GradientError(PrunNetError, ValueError):
    """Stacked gradients that cannot be integrated."""


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


class EvaluationError(PrunNetError, ValueError):
    """A metric nobody defined, embeddings that do not fit the data, or data that cannot be scored."""


class DivergedError(EvaluationError):
    """A network whose embeddings are not finite."""


class ConfigError(PrunNetError, ValueError):
    """A key or value that no run can have."""


class TrainingError(PrunNetError):
    """A run that cannot go on."""


class DivergedRunError(TrainingError):
    """A run whose losses, gradients or embeddings are no longer finite."""


class InterruptedRunError(PrunNetError):
    """A run that was asked to stop, and saved first."""

    exit_code = 130


class CheckpointError(PrunNetError):
    """A checkpoint that cannot be written or read."""


class ExportError(PrunNetError):
    """An export that cannot be made, does not compute what torch computes, or cannot be read back."""


class SearchError(PrunNetError, ValueError):
    """A gallery that is not there, or vectors, ids, metadata or a question that do not fit it."""


class StoreError(SearchError):
    """A database with a gallery that does not answer, or refuses what a gallery needs."""


class ServiceError(PrunNetError):
    """A service that cannot be started or reached, or that refuses what is asked of it."""


class LibraryError(PrunNetError):
    """The runtime's C library, where it can be neither found nor compiled."""


class SuiteError(PrunNetError, ValueError):
    """A suite or row that does not exist, or settings that a suite cannot take."""


class ReportError(PrunNetError):
    """A folder of which no report can be made."""


class InterruptedDemoError(PrunNetError):
    """A demo that was asked to stop, with Ctrl-C."""

    exit_code = 130


class MissingExtraError(PrunNetError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'prunnet[{extra}]'")


def first_line(error: Exception) -> str:
    """What another library complains of, to be told within a line of ours."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
