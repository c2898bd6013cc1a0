"""From a run folder to its report."""

import os
from collections.abc import Sequence
from pathlib import Path

from prunnet._files import write_atomically
from prunnet.data import RetrievalData
from prunnet.report.facts import gather
from prunnet.report.page import page
from prunnet.report.tables import MadeFile


def write_report(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    capacity: float = 0.13,
    data: RetrievalData | None = None,
    made: Sequence[MadeFile] = (),
) -> Path:
    """Write the report of the run in folder `run` and return its path (default: report.html in that folder).

    capacity: the small network whose searches are shown beside the dense one's.
    data: the run's data, if it is loaded already.
    made: files to list that were made from the family.
    """
    folder = Path(run)
    target = folder / "report.html" if out is None else Path(out)
    text = page(gather(folder, capacity, data), made)
    with write_atomically(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target
