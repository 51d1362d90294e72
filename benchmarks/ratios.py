"""Judges pairs of measurements against a limit: the median of their ratios, its 95 % interval, and a verdict.

The interval uses order statistics: it assumes nothing about the ratios' distribution except that they are independent.
For ten ratios it reaches from the second to the ninth (its true confidence is 97.9 %); fewer than six give none.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


class Verdict(enum.StrEnum):
    """The verdict on a ratio and its limit."""

    HELD = "held"
    """The whole interval lies within the limit."""
    MISSED = "missed"
    """The whole interval lies beyond the limit."""
    UNDECIDED = "undecided"
    """The limit lies within the interval: more pairs, or a quieter machine, may decide."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The median of ratios, with the bounds of its 95 % interval, which are infinite if there are too few ratios."""

    median: float
    low: float
    high: float

    def verdict(self, limit: float) -> Verdict:
        """Compares with the largest allowed ratio."""
        if self.high <= limit:
            return Verdict.HELD
        return Verdict.MISSED if self.low > limit else Verdict.UNDECIDED


def median_ratio(ratios: Sequence[float]) -> Ratio:
    """The median of at least one ratio, and its interval."""
    ordered = sorted(ratios)
    outside = _ranks_outside(len(ordered))
    low, high = (ordered[outside - 1], ordered[-outside]) if outside else (-math.inf, math.inf)
    return Ratio(statistics.median(ordered), low, high)


def _ranks_outside(count: int) -> int:
    """The largest rank r such that the median lies between the r-th least and the r-th greatest with 95 %; 0 if none.

    It lies below the r-th least if at most r - 1 of `count` values, each with probability 1/2, lie below it.
    """
    rank, below = 0, 0.0
    while rank < count // 2:
        below += math.comb(count, rank) / 2**count
        if below > (1 - CONFIDENCE) / 2:
            break
        rank += 1
    return rank
