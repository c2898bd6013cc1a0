from typing import Any

import pytest

from prunnet.data import RetrievalData, load_data

# a run of a few seconds: one narrow residual block per stage on small grey glyphs
TINY: dict[str, Any] = {
    "backbone": "resnet18",
    "backbone_options": {"in_chans": 1, "channels": [8, 8, 16, 16], "layers": [1, 1, 1, 1]},
    "input_size": (1, 16, 16),
    "embedding_dim": 16,
    "capacities": (0.5, 0.2),
    "batch_size": 16,
    "epochs": 2,
    "lr": 0.1,
    "align_batches": 4,
}
GLYPHS: dict[str, Any] = {"classes": 12, "images_per_class": 8, "size": 16}


@pytest.fixture(scope="session")
def glyphs() -> RetrievalData:
    return load_data("glyphs", **GLYPHS)
