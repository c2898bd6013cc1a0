import pytest
import torch
from torch import Tensor

from prunnet.gradients import ConflictAware, Mean
from prunnet.methods import StepTelemetry

PASSES = ("1", "0.5", "0.2")


@pytest.fixture
def layers() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "stem": torch.randn(3, 6, 3, 3, 3, generator=generator),
        "fc": torch.randn(3, 5, 8, generator=generator),
    }


def test_norms_and_cosines_are_those_of_the_whole_network(layers: dict[str, Tensor]) -> None:
    facts = ConflictAware().integrate(layers).telemetry.facts(PASSES)
    vectors = torch.cat([gradients.flatten(1) for gradients in layers.values()], dim=1).double()
    assert facts["norm"] == pytest.approx(dict(zip(PASSES, vectors.norm(dim=1).tolist(), strict=True)))
    cosines = torch.cosine_similarity(vectors[:1], vectors[1:])
    assert facts["cosine"] == pytest.approx(dict(zip(PASSES[1:], cosines.tolist(), strict=True)), abs=1e-6)
    assert -1 < facts["sum_cosine"] < 1 - 1e-6


def test_conflicts_are_a_share_and_a_count(layers: dict[str, Tensor]) -> None:
    layers["stem"] = layers["stem"].abs()
    layers["stem"][2, :2] *= -1  # two of six filters, each in two of its three pairs
    layers["fc"] = layers["fc"].abs()
    facts = Mean().integrate(layers).telemetry.facts(PASSES)
    assert facts["first_layer_conflicts"] == 4
    assert facts["conflicts"] == pytest.approx(4 / (6 * 3 + 3))
    assert facts["sum_cosine"] == pytest.approx(1.0)


def test_a_gradient_that_vanishes_has_cosine_zero(layers: dict[str, Tensor]) -> None:
    for gradients in layers.values():
        gradients[1] = 0
    facts = ConflictAware().integrate(layers).telemetry.facts(PASSES)
    assert facts["cosine"]["0.5"] == 0 == facts["norm"]["0.5"]


def test_a_step_tells_of_its_weights_and_under_scores_of_its_scores(layers: dict[str, Tensor]) -> None:
    weights = Mean().integrate(layers).telemetry
    scores = Mean().integrate({name: 2 * gradients for name, gradients in layers.items()}).telemetry
    row = StepTelemetry(weights, scores).facts(PASSES)
    assert row == {**weights.facts(PASSES), "scores": scores.facts(PASSES)}
    assert row["scores"]["norm"]["1"] == pytest.approx(2 * row["norm"]["1"])
    assert StepTelemetry(weights).facts(PASSES) == weights.facts(PASSES)
