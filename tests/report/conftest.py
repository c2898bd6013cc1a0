from pathlib import Path
from typing import Any

import pytest

from prunnet.report import write_report
from prunnet.training import train

# a run of a few seconds, with one capacity that was never trained
TINY: dict[str, Any] = {
    "backbone_options": {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]},
    "data_options": {"classes": 12, "images_per_class": 8, "size": 16},
    "input_size": (1, 16, 16),
    "embedding_dim": 16,
    "capacities": (0.5, 0.2),
    "evaluate_capacities": (1.0, 0.5, 0.2, 0.13),
    "batch_size": 16,
    "epochs": 2,
    "align_batches": 4,
}


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train(None, None, out=folder, quiet=True, **TINY)
    return folder


@pytest.fixture(scope="session")
def report(run: Path) -> Path:
    return write_report(run)
