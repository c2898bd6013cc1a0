"""What a user can get wrong. Each message is one line that says what is wrong and what to do."""


class PrunNetError(Exception):
    """Base of every error this project raises on purpose; the command line prints it without a traceback."""


class CapacityError(PrunNetError, ValueError):
    """A capacity, or a budget, that no subnetwork can have."""


class ModuleError(PrunNetError, ValueError):
    """A module that cannot become a prunable network."""


class ImageError(PrunNetError, ValueError):
    """Images of the wrong shape, type or number."""


class FamilyError(PrunNetError):
    """A family folder that cannot be written, or is damaged, foreign or too new; or two families that do not mix."""


class MissingExtraError(PrunNetError, ImportError):
    """An optional dependency that is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'prunnet[{extra}]'")
