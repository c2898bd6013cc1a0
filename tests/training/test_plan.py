"""What `--dry-run` tells: sizes of the very objects that would be trained."""

import pytest
from tests.training.conftest import TINY

from prunnet.runs import resolve
from prunnet.training.build import build_method, build_network
from prunnet.training.plan import plan


@pytest.mark.parametrize(
    ("method", "passes", "stacked"),
    [("prunnet", 3, True), ("dense", 1, False), ("joint", 3, False), ("switchnet", 3, True)],
)
def test_sizes_are_those_of_what_would_be_trained(glyphs, method: str, passes: int, stacked: bool) -> None:
    config = resolve({**TINY, "method": method, "capacities": (0.5, 0.2)})
    result = plan(config, glyphs)
    assert (result.images, result.classes, result.passes) == (len(glyphs.train), glyphs.train.classes, passes)
    batches = len(glyphs.train) // 16
    assert result.steps == 2 * batches
    assert result.aligning_passes == (3 * min(config.align_batches, 10 * batches) if method == "prunnet" else 0)

    network = build_network(config)
    made = build_method(config, network, glyphs.train)
    prunable = sum(weight.numel() for weight in network.weights.values())
    assert result.connections == (prunable if method in ("prunnet", "dense") else 0)
    values = sum(parameter.numel() for parameter in made.parameters() if parameter.requires_grad)
    assert result.parameters + result.connections == values and result.model_bytes == 4 * values
    gradients = sum(tensor.numel() for tensor in made.step(0).gradients()) if stacked else 0
    assert result.training_bytes == 4 * (3 * values + gradients)  # values, gradients and momentum of each
    assert (gradients > passes * prunable) == stacked
