from itertools import combinations

import pytest
import torch
from torch import Tensor

from prunnet.gradients import ConflictAware, Direct, Integrator, Mean, Pareto, PCGrad


@pytest.fixture
def layers() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "stem": torch.randn(4, 6, 3, 3, 3, generator=generator),
        "fc": torch.randn(4, 5, 8, generator=generator),
    }


@pytest.mark.parametrize("integrator", [ConflictAware(), ConflictAware(granularity="row"), PCGrad(), Mean()], ids=repr)
def test_conflicts_are_counted_per_filter_whatever_the_integrator(
    integrator: Integrator, layers: dict[str, Tensor]
) -> None:
    telemetry = integrator.integrate(layers).telemetry
    filters = [filter.flatten(1) for filter in layers["stem"].unbind(1)]
    in_stem = sum(bool(vectors[i] @ vectors[j] < 0) for vectors in filters for i, j in combinations(range(4), 2))
    whole = layers["fc"].flatten(1)
    in_fc = sum(bool(whole[i] @ whole[j] < 0) for i, j in combinations(range(4), 2))
    assert telemetry.layers == ("stem", "fc")
    assert telemetry.conflicting_pairs.tolist() == [in_stem, in_fc]
    assert telemetry.pairs == (6 * 6, 6)


def test_gramians_are_those_of_whole_layers(layers: dict[str, Tensor]) -> None:
    telemetry = ConflictAware().integrate(layers).telemetry
    for index, gradients in enumerate(layers.values()):
        vectors = gradients.flatten(1).double()
        torch.testing.assert_close(telemetry.gramians[index], vectors @ vectors.T, rtol=1e-5, atol=1e-4)


def test_tiny_gradients_are_measured_as_well(layers: dict[str, Tensor]) -> None:
    expected = ConflictAware().integrate(layers).telemetry
    tiny = {name: 1e-30 * gradients for name, gradients in layers.items()}
    telemetry = ConflictAware().integrate(tiny).telemetry
    assert telemetry.conflicting_pairs.equal(expected.conflicting_pairs)
    torch.testing.assert_close(telemetry.gramians * 1e60, expected.gramians, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("integrator", [ConflictAware(), Direct(), PCGrad(), Pareto(), Mean()], ids=repr)
def test_how_far_integration_turned_the_sum(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    integration = integrator.integrate(layers)
    integrated = torch.cat([gradient.flatten() for gradient in integration.gradients.values()])
    summed = torch.cat([gradients.sum(0).flatten() for gradients in layers.values()])
    expected = torch.cosine_similarity(integrated.double(), summed.double(), dim=0)
    torch.testing.assert_close(integration.telemetry.sum_cosine, expected, rtol=0, atol=1e-6)
    assert (integrator == Mean()) == (expected > 1 - 1e-6)


def test_nothing_to_integrate_points_nowhere(layers: dict[str, Tensor]) -> None:
    vanished = {name: torch.zeros_like(gradients) for name, gradients in layers.items()}
    assert ConflictAware().integrate(vanished).telemetry.sum_cosine == 0


def test_some_layers_alone(layers: dict[str, Tensor]) -> None:
    whole = ConflictAware().integrate(layers).telemetry
    alone = ConflictAware().integrate({"fc": layers["fc"]}).telemetry
    part = whole.only(["fc"])
    assert part.layers == ("fc",) and part.pairs == alone.pairs
    assert part.conflicting_pairs.equal(alone.conflicting_pairs) and part.gramians.equal(alone.gramians)
    assert part.sum_cosine == whole.sum_cosine
