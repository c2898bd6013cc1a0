"""The report: one self-contained HTML file about a run."""

from prunnet.report.errors import ReportError
from prunnet.report.tables import MadeFile
from prunnet.report.write import write_report

__all__ = ["MadeFile", "ReportError", "write_report"]
