"""Parses the names in a PromQL expression: its series, the labels that it groups by, and the values that it matches.

Reads the subset that rules and dashboards use; promtool and a Prometheus check the grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<string>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])|(?P<number>\d[\w.]*)"""
    r"""|(?P<name>[a-zA-Z_:][\w:]*)|(?P<op>=~|!~|!=|==|<=|>=|.)""",
    re.DOTALL,
)
_GROUPING = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_WORDS = _GROUPING | {"and", "or", "unless", "bool", "offset", "inf", "nan"}


@dataclass(frozen=True)
class Matcher:
    """One label's condition: `operator` is one of = != =~ !~."""

    label: str
    operator: str
    value: str

    def fits(self, value: str) -> bool:
        result = re.fullmatch(self.value, value) is not None if "~" in self.operator else self.value == value
        return result != self.operator.startswith("!")


@dataclass(frozen=True)
class Selector:
    """A series as an expression names it, and the labels that the aggregations around it need it to have."""

    name: str
    matchers: tuple[Matcher, ...]
    grouped: frozenset[str]


def selectors(expression: str) -> list[Selector]:
    """Returns the selectors of an expression, in order."""
    tokens = [match for match in _TOKEN.finditer(expression) if match.lastgroup != "space"]
    return list(_Reader([(str(match.lastgroup), match.group()) for match in tokens]).read())


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._groups = dict(self._groupings())

    def read(self) -> Iterator[Selector]:
        at = 0
        while at < len(self._tokens):
            kind, text = self._tokens[at]
            following = self._text(at + 1)
            if kind != "name" or text in _WORDS or following == "(" or self._in_labels(at):
                at += 1
                continue
            end = at + 1
            matchers: tuple[Matcher, ...] = ()
            if following == "{":
                end = self._closing(at + 1) + 1
                matchers = tuple(self._matchers(at + 2, end - 1))
            elif self._preceding_is_aggregation(at):
                at += 1
                continue
            grouped = {
                label for (first, last), labels in self._groups.items() if first <= at <= last for label in labels
            }
            yield Selector(text, matchers, frozenset(grouped))
            at = end

    def _preceding_is_aggregation(self, at: int) -> bool:
        """Whether this is `sum` of `sum by (…)`."""
        return self._text(at + 1) in {"by", "without"}

    def _groupings(self) -> Iterator[tuple[tuple[int, int], tuple[str, ...]]]:
        """Returns the range of tokens that each `by (…)` applies to, and its labels."""
        for at, (kind, text) in enumerate(self._tokens):
            if kind != "name" or text != "by":
                continue
            end = self._closing(at + 1)
            labels = tuple(text for kind, text in self._tokens[at + 2 : end] if kind == "name")
            if self._text(end + 1) == "(":  # sum by (…) (…)
                yield (end + 1, self._closing(end + 1)), labels
            else:  # sum (…) by (…)
                yield (self._opening(at - 1), at - 1), labels

    def _in_labels(self, at: int) -> bool:
        """Whether a name is in the list of labels after `by`, `on`, …"""
        depth = 0
        for back in range(at - 1, -1, -1):
            text = self._tokens[back][1]
            if text == ")":
                depth += 1
            elif text == "(" and depth:
                depth -= 1
            elif text == "(":
                return back > 0 and self._tokens[back - 1][1] in _GROUPING
        return False

    def _matchers(self, first: int, last: int) -> Iterator[Matcher]:
        at = first
        while at < last:
            label, operator, value = (self._text(at + step) for step in range(3))
            yield Matcher(label, operator, value[1:-1].replace(r"\\", "\\").replace(r"\"", '"'))
            at += 4  # with the comma

    def _text(self, at: int) -> str:
        return self._tokens[at][1] if 0 <= at < len(self._tokens) else ""

    def _closing(self, at: int) -> int:
        pairs = {"(": ")", "{": "}"}
        opening, depth = self._text(at), 0
        for forward in range(at, len(self._tokens)):
            text = self._tokens[forward][1]
            depth += (text == opening) - (text == pairs[opening])
            if depth == 0:
                return forward
        raise AssertionError(f"{opening} isn't closed")

    def _opening(self, at: int) -> int:
        depth = 0
        for back in range(at, -1, -1):
            text = self._tokens[back][1]
            depth += (text == ")") - (text == "(")
            if depth == 0:
                return back
        raise AssertionError(") isn't opened")
