"""Weights, norms and biases, and scores decay and learn at rates of their own."""

from tests.training.conftest import TINY

from prunnet.runs import resolve
from prunnet.training.build import build_method, build_network, build_optimiser


def test_each_kind_of_parameter_has_its_own_decay_and_rate(glyphs) -> None:
    config = resolve({**TINY, "weight_decay": 3e-4, "score_decay": 2e-4, "norm_decay": 1e-4, "score_lr": 7.0})
    network = build_network(config)
    method = build_method(config, network, glyphs.train)
    groups = build_optimiser(config, method, 10).param_groups
    found = {p: (group["weight_decay"], group["relative_lr"]) for group in groups for p in group["params"]}
    assert set(found) == {parameter for parameter in method.parameters() if parameter.requires_grad}
    scores = set(network.scores.parameters())
    for parameter, told in found.items():
        if parameter in scores:
            assert told == (2e-4, 7.0)
        else:
            assert told == ((3e-4 if parameter.ndim > 1 else 1e-4), 1.0)
