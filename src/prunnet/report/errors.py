from prunnet.errors import PrunNetError


class ReportError(PrunNetError):
    """A folder of which no report can be made."""
