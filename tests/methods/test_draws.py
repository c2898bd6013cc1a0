import torch

from prunnet.methods.method import generator_for, seed_rank


def draws(seed: int, step: int) -> list[float]:
    return torch.rand(4, generator=generator_for(seed, step)).tolist()


def test_a_method_draws_by_seed_and_step() -> None:
    assert draws(0, 3) == draws(0, 3)
    assert len({tuple(draws(seed, step)) for seed in range(4) for step in range(4)}) == 16
    assert draws(2**62, 1) == draws(2**62, 1)  # more than a generator takes


def test_ranks_draw_apart() -> None:
    with torch.random.fork_rng():
        drawn = []
        for step, rank in ((0, 0), (0, 1), (1, 0), (0, 0)):
            seed_rank(0, step, rank)
            drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[3]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
