from prunnet.errors import PrunNetError


class ReportError(PrunNetError):
    """A folder of which no report can be made."""


class InterruptedDemoError(PrunNetError):
    """A demo that was asked to stop, with Ctrl-C."""

    exit_code = 130
