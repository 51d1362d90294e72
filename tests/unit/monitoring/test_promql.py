"""The tests' own parser of expressions."""

from __future__ import annotations

import pytest

from promql import Matcher, Selector, selectors


def plain(name: str, *grouped: str) -> Selector:
    return Selector(name, (), frozenset(grouped))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("up == 0", [plain("up")]),
        ("time() - started_seconds < 3600", [plain("started_seconds")]),
        ("rate(x_total[5m]) > 6 * 0.05", [plain("x_total")]),
        ("sum by (a, b) (rate(x[5m])) / sum(y) by (c)", [plain("x", "a", "b"), plain("y", "c")]),
        ("max(x) > 0 and on () sum(increase(y[1h])) == 0", [plain("x"), plain("y")]),
        ("histogram_quantile(0.95, sum by (le) (rate(h_bucket[$__rate_interval])))", [plain("h_bucket", "le")]),
        ("a:b:rate5m / on (job) group_left (version) info", [plain("a:b:rate5m"), plain("info")]),
        (
            'x{job="a", code=~"4..|5.."} or absent(y{z!="})"})',
            [
                Selector("x", (Matcher("job", "=", "a"), Matcher("code", "=~", "4..|5..")), frozenset()),
                Selector("y", (Matcher("z", "!=", "})"),), frozenset()),
            ],
        ),
    ],
)
def test_the_selectors_of_an_expression(expression: str, expected: list[Selector]) -> None:
    assert selectors(expression) == expected


def test_which_labels_a_matcher_matches() -> None:
    assert Matcher("a", "=~", "4..").fits("404")
    assert not Matcher("a", "=~", "4..").fits("4044")
    assert Matcher("a", "!~", "4..").fits("500")
    assert Matcher("a", "=", "x").fits("x")
    assert not Matcher("a", "!=", "x").fits("x")
