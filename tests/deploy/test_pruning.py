"""Budgets lead to the largest subnetwork that fits, always with statistics of its own, or to a clear refusal."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.coupled import make_network, random_images
from torch.utils.flop_counter import FlopCounterMode

import prunnet
from prunnet.costs.structured_profile import StructuredCostProfile
from prunnet.deploy import pruning as budget
from prunnet.deploy.latency import SMALLEST_TRIED, largest_within, parse_latency
from prunnet.deploy.pruning import prune
from prunnet.deploy.timings import Timing, bench
from prunnet.errors import CapacityError, ExportError

LOADER = [random_images(16, seed=3)]


def test_stored_statistics_are_used(adapted_net: prunnet.PrunableNetwork) -> None:
    subnetwork = prune(adapted_net, capacity=0.2)
    assert subnetwork.adapted
    for name, tensor in (adapted_net.statistics.get(0.2) or {}).items():
        assert torch.equal(subnetwork.get_buffer(name), tensor)


def test_without_statistics_or_images_it_refuses_and_says_what_to_do(adapted_net: prunnet.PrunableNetwork) -> None:
    with pytest.raises(CapacityError, match=r"the 40 % subnetwork has no .*--data\), or take capacity 0.2"):
        prune(adapted_net, capacity=0.4)
    with pytest.raises(CapacityError, match="a structured subnetwork has no"):
        prune(adapted_net, capacity=0.5, structured=True)
    assert prune(adapted_net, capacity=0.4, loader=LOADER).adapted


def test_unstructured_budgets_are_met(adapted_net: prunnet.PrunableNetwork) -> None:
    half = prunnet.cost(adapted_net, 0.5)
    subnetwork = prune(adapted_net, max_bytes=half.bytes, max_macs=half.macs, loader=LOADER)
    assert prunnet.cost(adapted_net, subnetwork.capacity).bytes <= half.bytes
    assert subnetwork.capacity == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2", "branches"])
def test_structured_budgets_are_met_and_counted_as_torch_counts(name: str) -> None:
    net = make_network(name)
    profile = StructuredCostProfile(net)
    budget = profile.macs_of(1.0) // 2
    subnetwork = prune(net, max_macs=budget, structured=True, loader=LOADER)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        subnetwork(torch.zeros(1, *net.preprocessing.input_size))
    assert counter.get_total_flops() // 2 <= budget
    assert counter.get_total_flops() // 2 == pytest.approx(profile.macs_at(subnetwork.capacity), rel=1e-6)
    stored = sum(t.numel() for t in subnetwork.state_dict().values() if t.is_floating_point())
    assert profile.bytes_at(subnetwork.capacity) == 2 * stored


def test_structured_bytes_budget() -> None:
    net = make_network("resnet18")
    profile = StructuredCostProfile(net)
    budget = profile.bytes_of(1.0) // 3
    subnetwork = prune(net, max_bytes=budget, structured=True, loader=LOADER)
    assert 0.5 * budget < profile.bytes_at(subnetwork.capacity) <= budget
    with pytest.raises(CapacityError, match="no structured subnetwork fits"):
        prune(net, max_bytes=100, structured=True)


def test_latency_budgets_are_all_or_nothing_where_zeros_do_not_pay(adapted_net: prunnet.PrunableNetwork) -> None:
    assert prune(adapted_net, max_latency=1000).capacity == 1.0
    with pytest.raises(CapacityError, match="prune structured"):
        prune(adapted_net, max_latency="0.001us")
    with pytest.raises(CapacityError, match="another backbone"):
        prune(adapted_net, max_latency="0.001us", structured=True)
    with pytest.raises(ExportError, match="unknown runtime 'tflite'"):
        prune(adapted_net, max_latency="8ms", runtime="tflite")


@given(exponent=st.floats(0.3, 3), budget=st.floats(0.01, 1.2))
def test_the_search_ends_just_below_the_size_that_takes_the_budget(exponent: float, budget: float) -> None:
    asked: list[float] = []

    def measure(size: float) -> float:
        asked.append(size)
        return size**exponent

    if budget < SMALLEST_TRIED**exponent:
        with pytest.raises(CapacityError, match=r"no subnetwork takes at most .* in torch here: 1e\+03 ms dense"):
            largest_within(measure, budget, "torch", structured=True)
        assert asked == [1.0, SMALLEST_TRIED]
        return
    found = largest_within(measure, budget, "torch", structured=True)
    exact = min(1.0, budget ** (1 / exponent))
    assert found**exponent <= budget + 1e-12
    assert exact - found <= (1 - SMALLEST_TRIED) / 2**6 + 1e-9
    assert len(asked) <= 8


def test_a_latency_budget_leads_to_the_widest_structured_subnetwork_within(monkeypatch: pytest.MonkeyPatch) -> None:
    """With MACs in place of seconds, so that the same subnetwork is found on every machine."""
    net = make_network("resnet18")
    profile = StructuredCostProfile(net)
    monkeypatch.setattr(budget, "latency", lambda subnetwork, _: profile.macs_at(subnetwork.capacity))
    subnetwork = prune(net, max_latency=0.3 * profile.macs_of(1.0), structured=True, loader=LOADER)
    share = profile.macs_at(subnetwork.capacity) / profile.macs_of(1.0)
    assert 0.2 < share <= 0.3


def test_a_latency_budget_leads_to_a_capacity_where_zeros_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """With kept connections in place of seconds in prunnet's own runtime; others multiply zeros too."""
    net = make_network("resnet18")
    weights = [parameter for parameter in net.backbone.parameters() if parameter.ndim > 1]
    every = sum(weight.numel() for weight in weights)

    def took(subnetwork: prunnet.Subnetwork, runtime: str) -> int:
        parameters = [parameter for parameter in subnetwork.backbone.parameters() if parameter.ndim > 1]
        return int(sum(weight.count_nonzero() for weight in parameters)) if runtime == "prunnet" else every

    monkeypatch.setattr(budget, "latency", took)
    found = [prune(net, max_latency=share * every, runtime="prunnet", loader=LOADER) for share in (0.6, 0.3, 0.1)]
    assert [subnetwork.capacity for subnetwork in found] == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    with pytest.raises(CapacityError, match="only the runtime prunnet uses zeros"):
        prune(net, max_latency=0.3 * every, runtime="onnxruntime", loader=LOADER)


def test_one_of_capacity_and_budget_is_needed(adapted_net: prunnet.PrunableNetwork) -> None:
    for options in ({}, {"capacity": 0.5, "max_macs": "1M"}):
        with pytest.raises(CapacityError, match="either a capacity or a budget"):
            prune(adapted_net, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "seconds"), [("8ms", 0.008), ("250 us", 0.00025), ("0.1s", 0.1), (0.5, 0.5)])
def test_latencies_carry_their_unit(text: str | float, seconds: float) -> None:
    assert parse_latency(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["8", "ms", "8 m", "-8ms", "0ms", 0.0])
def test_a_latency_without_unit_is_refused(text: str | float) -> None:
    with pytest.raises(CapacityError, match="latency"):
        parse_latency(text)


def test_bench_measures_every_runtime_against_its_own_dense_network(adapted_net: prunnet.PrunableNetwork) -> None:
    timings = bench(adapted_net, (0.5,), ("torch", "onnxruntime"), structured=True, batch_size=2, rounds=3)
    assert [(t.runtime, t.structured) for t in timings] == [
        (runtime, structured) for runtime in ("torch", "onnxruntime") for structured in (False, False, True)
    ]
    for timing in timings:
        dense = next(one for one in timings if one.runtime == timing.runtime)
        assert timing.ratio == pytest.approx(timing.latency / dense.latency) and dense.capacity == 1.0
        expected = prunnet.cost(adapted_net, timing.capacity).macs if not timing.structured else None
        if expected is not None:
            assert timing.macs_ratio == pytest.approx(expected / prunnet.cost(adapted_net, 1.0).macs)


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.03, "no"), (0.9, "no"), (0.7, "partly"), (0.45, "yes"), (0.2, "yes")]
)
def test_verdict_compares_time_saved_with_multiplications_saved(ratio: float, verdict: str) -> None:
    assert Timing("torch", 0.2, False, 0.01, 100, ratio, macs_ratio=0.2).verdict == verdict
