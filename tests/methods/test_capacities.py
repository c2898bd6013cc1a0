"""Which capacities a step trains."""

import math

import pytest
import torch

from prunnet.methods import AnyCapacities


@pytest.mark.parametrize("distribution", ["log-uniform", "uniform"])
def test_each_part_of_the_range_is_drawn_from_at_every_step(distribution) -> None:
    capacities, generator = AnyCapacities(0.05, 3, distribution), torch.Generator().manual_seed(0)
    for _ in range(200):
        *between, smallest = capacities.draw(generator)
        assert smallest == 0.05 and between == sorted(between, reverse=True)
        if distribution == "uniform":
            places = [(capacity - 0.05) / 0.95 for capacity in between]
        else:
            places = [1 - math.log(capacity) / math.log(0.05) for capacity in between]
        assert [int(3 * place) for place in places] == [2, 1, 0]


def test_every_capacity_comes_up() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.tensor([AnyCapacities(0.05, 2).draw(generator)[:2] for _ in range(2000)]).log().flatten()
    counts = torch.histc(drawn, bins=10, min=math.log(0.05), max=0.0)
    assert counts.min() > 300  # of 4,000, evenly in the logarithm
