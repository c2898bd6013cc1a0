"""Everything random of a step is a function of (seed, step), so that no random state has to be kept."""

import torch


def generator_for(seed: int, step: int) -> torch.Generator:
    """What a method draws from, alike on all ranks."""
    return torch.Generator().manual_seed(_number(seed, step) % 2**63)


def seed_rank(seed: int, step: int, rank: int) -> None:
    """Give torch's own generator, which dropout draws from, a state that no other rank has."""
    torch.manual_seed(_number(seed, step) * 1_009 + rank)


def _number(seed: int, step: int) -> int:
    return seed * 1_000_003 + step
