"""Which segments become one, so that many small additions do not leave many small files."""

from collections.abc import Sequence

FAN = 8
TIERS = 5
"""Segments of 8⁵ rows or more are left alone; eight smaller ones have at most 8⁶."""


def to_merge(rows: Sequence[int]) -> int:
    """How many of the last segments to merge, given the rows of all; 0 for none.

    As soon as eight segments at the end have fewer than 8ᵗ rows each they are merged. Of each size there are thus never
    more than seven, and a vector is written again at most once for each size.
    """
    for tier in range(1, TIERS + 1):
        small = 0
        while small < len(rows) and rows[-1 - small] < FAN**tier:
            small += 1
        if small >= FAN:
            return small
    return 0
