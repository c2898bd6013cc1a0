"""What all integrators promise."""

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from prunnet.errors import GradientError
from prunnet.gradients import Blocks, ConflictAware, Direct, Integrator, Mean, Pareto, PCGrad, Sum

PER_LAYER = [
    ConflictAware(),
    ConflictAware(rule="released"),
    ConflictAware(granularity="row"),
    ConflictAware(granularity="layer"),
    Direct(),
    PCGrad(granularity="layer"),
    Sum(),
    Mean(),
    Pareto(granularity="layer"),
]
PER_NETWORK = [
    ConflictAware(granularity="network"),
    ConflictAware(rule="released", granularity="network"),
    PCGrad(),
    Pareto(),
]
every_integrator = pytest.mark.parametrize("integrator", PER_LAYER + PER_NETWORK, ids=repr)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def layers() -> dict[str, Tensor]:
    generator = seeded()
    shapes = {"stem": (6, 3, 3, 3), "depthwise": (6, 1, 3, 3), "fc": (5, 8), "scale": (7,)}
    return {name: torch.randn(4, *shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


@every_integrator
def test_one_gradient_is_returned_as_it_is(integrator: Integrator) -> None:
    gradient = torch.randn(1, 3, 2, 3, 3, generator=seeded())
    torch.testing.assert_close(integrator(gradient), gradient[0])


@pytest.mark.parametrize("integrator", PER_LAYER, ids=repr)
def test_a_network_is_its_layers_with_the_same_order(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    together = integrator.integrate(layers, generator=seeded()).gradients
    assert list(together) == list(layers)
    for name, gradients in layers.items():
        torch.testing.assert_close(together[name], integrator(gradients, generator=seeded()))


@pytest.mark.parametrize("integrator", PER_NETWORK, ids=repr)
def test_network_granularity_takes_the_network_as_one_vector(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    together = integrator.integrate(layers, generator=seeded()).gradients
    one_vector = torch.cat([gradients.flatten(1) for gradients in layers.values()], dim=1)
    expected = integrator(one_vector, generator=seeded())
    torch.testing.assert_close(torch.cat([gradient.flatten() for gradient in together.values()]), expected)


def test_granularity_says_what_is_one_vector(layers: dict[str, Tensor]) -> None:
    def integrated(name: str, granularity: str) -> Tensor:
        return ConflictAware(granularity=granularity)(layers[name], generator=seeded())

    def row_by_row(name: str) -> Tensor:
        rows = layers[name].unbind(1)
        return torch.stack([ConflictAware(granularity="layer")(row, generator=seeded()) for row in rows])

    torch.testing.assert_close(integrated("stem", "filter"), row_by_row("stem"))
    torch.testing.assert_close(integrated("stem", "row"), row_by_row("stem"))
    torch.testing.assert_close(integrated("fc", "row"), row_by_row("fc"))
    torch.testing.assert_close(integrated("fc", "filter"), integrated("fc", "layer"))
    assert not torch.allclose(integrated("stem", "layer"), integrated("stem", "filter"))
    assert not torch.allclose(integrated("fc", "row"), integrated("fc", "layer"))


@every_integrator
def test_ranks_that_share_a_generator_agree(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    results = []
    for rank in range(2):
        torch.manual_seed(rank)
        results.append(integrator.integrate(layers, generator=seeded(7)).gradients)
    assert all(results[0][name].equal(results[1][name]) for name in layers)


@every_integrator
def test_a_generator_spares_the_global_one(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    state = torch.get_rng_state()
    generator = seeded()
    integrator.integrate(layers, generator=generator)
    assert torch.get_rng_state().equal(state)
    assert not generator.get_state().equal(seeded().get_state())


@pytest.mark.parametrize("integrator", [ConflictAware(), ConflictAware(rule="released"), Direct(), PCGrad()], ids=repr)
def test_the_order_of_projection_matters(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    first = integrator(layers["stem"], generator=seeded(0))
    assert any(not torch.allclose(first, integrator(layers["stem"], generator=seeded(i))) for i in range(1, 5))


@pytest.mark.parametrize(
    "integrator", [ConflictAware(), ConflictAware(rule="released"), Direct(), PCGrad(), Sum(), Mean()], ids=repr
)
def test_the_algebra_never_asks_for_a_value(integrator: Integrator) -> None:
    """Tensors without data raise where a host would have to wait for a device."""
    with torch.device("meta"):
        blocks = Blocks(torch.empty(7, 4, 4, dtype=torch.float64), torch.empty(7), sizes=(3, 4))
        order = torch.empty(4, 4, dtype=torch.int64)
    assert integrator.weights(blocks, order).shape == (7, 4)


class CountReads(TorchDispatchMode):
    """Counts the operations that read a tensor or a view of it."""

    def __init__(self, watched: Tensor) -> None:
        super().__init__()
        self.storage = watched.untyped_storage().data_ptr()
        self.reads = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        views = [x for x in args if isinstance(x, Tensor) and x.untyped_storage().data_ptr() == self.storage]
        self.reads += bool(views) and not func.is_view
        return func(*args, **(kwargs or {}))


@every_integrator
def test_gradients_are_read_twice(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    with CountReads(layers["stem"]) as counter:
        integrator.integrate(layers)
    assert counter.reads == 2


@every_integrator
def test_inputs_stay_as_they_are(integrator: Integrator, layers: dict[str, Tensor]) -> None:
    copies = {name: gradients.clone() for name, gradients in layers.items()}
    integrator.integrate(layers)
    assert all(layers[name].equal(copies[name]) for name in layers)


def test_scales_without_conflict(layers: dict[str, Tensor]) -> None:
    gradients = layers["stem"].abs()
    for integrator in (ConflictAware(), ConflictAware(rule="released"), Direct(), PCGrad(), Sum()):
        torch.testing.assert_close(integrator(gradients), gradients.sum(0))
    torch.testing.assert_close(Mean()(gradients), gradients.mean(0))


def test_sum_and_mean_ignore_conflicts(layers: dict[str, Tensor]) -> None:
    torch.testing.assert_close(Sum()(layers["stem"]), layers["stem"].sum(0))
    torch.testing.assert_close(Mean()(layers["stem"]), layers["stem"].mean(0))


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ({}, "no layer"),
        ({"a": torch.ones(3)}, r"layer 'a' .* shape \[3\]"),
        ({"a": torch.ones(3, 0)}, r"layer 'a' .* shape \[3, 0\]"),
        ({"a": torch.ones(3, 2, dtype=torch.int64)}, "layer 'a' .* torch.int64"),
        ({"a": torch.ones(3, 2), "b": torch.ones(2, 2)}, "passes; layer 'b' has 2, not 3"),
        ({"a": torch.ones(3, 2), "b": torch.ones(3, 2).double()}, "dtype; layer 'b' has torch.float64"),
        ({"a": torch.ones(3, 2), "b": torch.ones(3, 2, device="meta")}, "device; layer 'b' has meta, not cpu"),
    ],
)
def test_refuses_gradients_that_do_not_fit(layers: dict[str, Tensor], message: str) -> None:
    with pytest.raises(GradientError, match=message):
        Sum().integrate(layers)
