"""The rehearsal's figures from a load."""

import math

import pytest

from deploy.rehearsal import report
from deploy.rehearsal.faults import slowest
from deploy.rehearsal.load import Asked, End, Kind


def make_request(kind: Kind, end: End | None, began: float, ended: float | None) -> Asked:
    return Asked(kind, f"{kind}-{began}", began, end=end, ended=ended)


ALL = [
    make_request("search", "complete", 10.0, 10.1),
    make_request("search", "unavailable", 10.2, 10.4),
    make_request("native", "cut", 9.0, 12.0),
    make_request("simple", None, 11.0, None),
]


def test_failed_requests_are_those_that_ended_incomplete() -> None:
    assert report.failed(ALL) == [ALL[1], ALL[2]]
    assert report.failed_unary(ALL) == [ALL[1]]


def test_times_of_failures_count_from_the_fault() -> None:
    assert report.last_failure(ALL, 10.0) == pytest.approx(2.0)
    assert report.last_begun(ALL, 10.0) == pytest.approx(0.2)  # the stream was cut, but had begun before
    assert report.last_failure(ALL, 20.0) == 0
    assert report.last_begun([], 0.0) == 0


def test_kinds_are_counted_by_their_end() -> None:
    assert report.kinds(ALL[1:3] + ALL[1:2]) == "native cut 1, search unavailable 2"
    assert report.kinds([]) == "–"


@pytest.mark.parametrize(("percent", "value"), [(50, 2), (100, 4), (75, 3), (1, 1)])
def test_percentiles_are_observed_values(percent: float, value: float) -> None:
    assert report.percentile([4, 1, 3, 2], percent) == value


def test_there_is_no_percentile_without_values() -> None:
    assert math.isnan(report.percentile([], 50))


def test_spread_is_the_largest_deviation_from_the_mean() -> None:
    assert report.spread({"a": 50, "b": 50}) == 0
    assert report.spread({"a": 120, "b": 100, "c": 80, "d": 100}) == pytest.approx(0.2)
    assert report.spread({"a": 100, "b": 0}) == math.inf
    assert report.spread({}) == math.inf


def test_a_goal_is_met_up_to_its_limit_and_not_without_a_value() -> None:
    assert report.at_most("x", 10, 10.0, " s").met
    assert not report.at_most("x", 10, 10.1, " s").met
    assert report.at_most("x", 10, None, " s").row() == ["x", "≤ 10 s", "never", "NO"]
    assert report.at_most("x", 10, 3).row() == ["x", "≤ 10", "3", "yes"]


def test_the_slowest_time_is_none_if_one_is_missing() -> None:
    assert slowest([1.0, 3.0, 2.0]) == 3.0
    assert slowest([1.0, None]) is None
    assert slowest([]) == 0.0
