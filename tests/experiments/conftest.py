from pathlib import Path
from typing import Any

import pytest

from prunnet.experiments import Row, Suite, compare

# runs of about a second: one narrow residual block per stage on a few small grey glyphs
TINY: dict[str, Any] = {
    "data": "glyphs",
    "data_options": {"classes": 12, "images_per_class": 8, "size": 16},
    "backbone": "resnet18",
    "backbone_options": {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]},
    "input_size": (1, 16, 16),
    "embedding_dim": 16,
    "batch_size": 16,
    "epochs": 1,
}
ROWS = {
    "separate": Row(
        {"method": "independent", "capacities": (0.5, 0.2)}, tuned_by=((1.0, 1.0), (0.2, 0.2)), compatible=False
    ),
    "prunnet-paper": Row({"capacities": (0.5, 0.2)}),
    "added": Row(
        {"method": "bct", "capacities": (0.1,)},
        old="prunnet-paper",
        tuned_by=((0.1, 0.1), (0.1, 1.0)),
        gets="a family trained before",
    ),
}
COLUMNS = ((1.0, 1.0), (0.2, 0.2), (0.2, 1.0), (0.1, 1.0))
SUITE = Suite(
    "tiny",
    "Tiny",
    {"added": "Added", "separate": "Separate", "prunnet-paper": "PrunNet"},
    COLUMNS,
    paper={"separate": {(1.0, 1.0): 45.41}},
    definitions=ROWS,
)
RATES, SEEDS = (0.03, 0.1), (0, 1)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> tuple[Path, list[str]]:
    """The folder of a whole comparison, and what it said."""
    said: list[str] = []
    out = tmp_path_factory.mktemp("compare")
    compare(SUITE, out=out, rates=RATES, seeds=SEEDS, say=said.append, **TINY)
    return out, said


def only(*names: str) -> Suite:
    """A suite of some of the rows."""
    rows = {name: SUITE.rows[name] for name in names}
    return Suite("part", "Part", rows, COLUMNS, reference=names[0], definitions=ROWS)
