"""Verdicts on a limit from pairs of measurements."""

from __future__ import annotations

import math
import random

import pytest

from benchmarks.ratios import Verdict, median_ratio


def test_ten_ratios_give_the_second_and_the_ninth() -> None:
    ratio = median_ratio([0.9, 1.3, 1.0, 1.1, 1.2, 0.8, 0.95, 1.05, 1.15, 1.25])
    assert (ratio.low, ratio.high) == (0.9, 1.25)
    assert ratio.median == pytest.approx(1.075)


@pytest.mark.parametrize(("count", "low", "high"), [(6, 1, 6), (8, 1, 8), (9, 2, 8), (20, 6, 15), (30, 10, 21)])
def test_intervals_are_those_of_the_binomial_tables(count: int, low: int, high: int) -> None:
    ratio = median_ratio([float(rank) for rank in range(1, count + 1)])
    assert (ratio.low, ratio.high) == (low, high)


def test_five_ratios_are_too_few_for_an_interval() -> None:
    ratio = median_ratio([1.5] * 5)
    assert (ratio.median, ratio.low, ratio.high) == (1.5, -math.inf, math.inf)
    assert ratio.verdict(1.03) is Verdict.UNDECIDED


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.0, 1.01, 1.02] * 4, Verdict.HELD),
        ([1.03] * 10, Verdict.HELD),
        ([1.05, 1.1, 1.2] * 4, Verdict.MISSED),
        ([0.5, *[1.05] * 9], Verdict.MISSED),  # one outlier changes nothing
        ([0.9, 1.0, 1.1, 1.2] * 3, Verdict.UNDECIDED),
    ],
)
def test_a_verdict_needs_the_whole_interval(ratios: list[float], verdict: Verdict) -> None:
    assert median_ratio(ratios).verdict(1.03) is verdict


def test_the_interval_contains_the_true_median_nineteen_times_of_twenty() -> None:
    drawn = random.Random(11)
    inside = 0
    for _ in range(1000):
        ratio = median_ratio([drawn.lognormvariate(0, 0.2) for _ in range(10)])
        inside += ratio.low <= 1 <= ratio.high
    assert 955 <= inside <= 995
