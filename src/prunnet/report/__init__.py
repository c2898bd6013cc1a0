"""The report: one self-contained HTML file about a run."""

from prunnet.report.page import write_report
from prunnet.report.tables import MadeFile

__all__ = ["MadeFile", "write_report"]
