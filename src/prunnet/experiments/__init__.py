"""Experiments: the paper's tables and figures as runnable definitions.

prunnet.experiments.compare("table1", out="runs/compare", preset="omniglot-small", root="omniglot/")
"""

from prunnet.errors import SuiteError
from prunnet.experiments.rows import ROWS, Row
from prunnet.experiments.running import compare
from prunnet.experiments.suites import SUITES, Suite

__all__ = ["ROWS", "SUITES", "Row", "Suite", "SuiteError", "compare"]
