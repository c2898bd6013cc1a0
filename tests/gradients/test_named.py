from typing import get_args

import prunnet.gradients
from prunnet.gradients import ConflictAware, Direct, Integrator, IntegratorName, Pareto, PCGrad, create_integrator


def test_every_integrator_has_one_name() -> None:
    public = {getattr(prunnet.gradients, name) for name in prunnet.gradients.__all__}
    classes = {member for member in public if isinstance(member, type) and issubclass(member, Integrator)} - {
        Integrator
    }
    made = [type(create_integrator(name)) for name in get_args(IntegratorName)]
    assert len(made) == len(classes) and set(made) == classes


def test_settings_reach_the_integrators_that_have_them() -> None:
    settings = {"alpha": 2.0, "rule": "released", "granularity": "row"}
    assert create_integrator("conflict-aware", **settings) == ConflictAware(2.0, "released", "row")
    assert create_integrator("direct", **settings) == Direct("row")
    assert create_integrator("pcgrad", **settings) == PCGrad() and create_integrator("pareto", **settings) == Pareto()
    assert create_integrator("conflict-aware") == ConflictAware()
