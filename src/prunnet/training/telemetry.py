"""What is written down of the gradients of a step."""

from collections.abc import Sequence
from typing import Any

from prunnet.gradients import Telemetry
from prunnet.methods import StepTelemetry


def describe(telemetry: StepTelemetry | None, passes: Sequence[str]) -> dict[str, Any]:
    """Facts about the gradients of the weights, and under `scores` the same of the scores; `passes` names the rows."""
    if telemetry is None:
        return {}
    facts = integration_facts(telemetry.weights, passes)
    return facts if telemetry.scores is None else {**facts, "scores": integration_facts(telemetry.scores, passes)}


def integration_facts(telemetry: Telemetry, passes: Sequence[str]) -> dict[str, Any]:
    """What Gram matrices tell: conflicts, cosines, gradient norms, and how far integration has turned the sum."""
    whole = telemetry.gramians.sum(0).double()
    norms = whole.diagonal().clamp_min(0).sqrt()
    cosines = whole[0, 1:] / (norms[0] * norms[1:]).clamp_min(1e-300)
    pairs = telemetry.conflicting_pairs
    return {
        "conflicts": int(pairs.sum()) / sum(telemetry.pairs),
        "first_layer_conflicts": int(pairs[0]),
        "cosine": dict(zip(passes[1:], cosines.tolist(), strict=True)),
        "norm": dict(zip(passes, norms.tolist(), strict=True)),
        "sum_cosine": float(telemetry.sum_cosine),
    }
