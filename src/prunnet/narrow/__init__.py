"""Networks of width √c, which the paper's compared methods train: separate members, or widths of one network."""

from prunnet.narrow.members import Members
from prunnet.narrow.slimmable import SlimmableNetwork

__all__ = ["Members", "SlimmableNetwork"]
