"""A second implementation of the filter grammar in Python, and filters to test it with."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from hypothesis import strategies as st

from citewire_kit.filter_fields import TEXT_FIELDS, TIME_FIELDS
from citewire_retriever import filters
from citewire_retriever.filters import All, Comparison, Filter, Not, Operator, Scalar

_WORDS = ("", "a", "A", "b", "ab", "é", "'", '"', "%", "\\", "{}", "{0}", "%s", "$1", "null", "2024")
_KEYS = ("n", "s", "l", "b", "o.i", "o", "none", "it's", "{}", "%(p0)s")
_MOMENTS = ("2024-01-01", "2024-05-01T12:00:00Z", "2024-05-01T14:00:00.5+02:00", "2030-12-31")
_OPERATORS = tuple(Operator)


@dataclass(frozen=True, slots=True)
class Subject:
    """The part of a document that filters see."""

    title: str
    file_name: str
    type: str
    url: str
    collection: str
    owner: str
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    created_at: datetime
    id: int


SUBJECTS_METADATA: tuple[Mapping[str, Any], ...] = (
    {},
    {"n": 2024, "s": "ab", "l": ["a", 1, True, None, ["b"], {"i": 1}], "b": True, "o": {"i": "a"}, "none": None},
    {"n": -0.5, "s": "A", "l": "ab", "b": False, "o": {"i": 2024}},
    {"n": "2024", "s": 7, "l": [], "b": "true", "o": "i", "it's": "'", "{}": "{}", "%(p0)s": 1},
    {"n": True, "s": None, "l": {"a": "a"}, "o": {"i": None}},
)

_NUMBERS = (0, 1, -1, 7, 2024, 0.5, -0.5, 1e300, 5e-324)
_FIELDS = (*TEXT_FIELDS, "created_at", "tags", "id", *(f"metadata.{key}" for key in _KEYS))


def comparisons() -> list[Comparison]:
    """Each field with each operator and each value, of its own and other types."""
    made: list[Comparison] = []
    for field, op in itertools.product(_FIELDS, _OPERATORS):
        values: tuple[Scalar, ...] = (*(_MOMENTS if field == "created_at" else _WORDS), *_NUMBERS, True, False)
        if op == "exists":
            made += [filters.comparison("f", field, op, value) for value in (True, False)]
        elif op == "in":
            choices = [(), values, *itertools.pairwise(values)]
            made += [filters.comparison("f", field, op, choice) for choice in choices]
        else:
            made += [filters.comparison("f", field, op, value) for value in values]
    return made


def any_filter() -> st.SearchStrategy[Filter]:
    """Filters of all shapes, some levels deep."""
    leaves: st.SearchStrategy[Filter] = st.sampled_from(comparisons())
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(All, st.lists(inner, max_size=3).map(tuple)),
            st.builds(filters.AnyOf, st.lists(inner, max_size=3).map(tuple)),
            st.builds(Not, inner),
        ),
        max_leaves=8,
    )


def holds(node: Filter, subject: Subject) -> bool:
    """Whether a document satisfies a filter."""
    if isinstance(node, All):
        return all(holds(member, subject) for member in node.members)
    if isinstance(node, filters.AnyOf):
        return any(holds(member, subject) for member in node.members)
    if isinstance(node, Not):
        return not holds(node.member, subject)
    value = _value(node, subject)
    if node.op == "ne":
        return not _equal(value, node.values[0])
    if node.op == "exists":
        return (value is not None) == node.values[0]
    if node.op == "in":
        return any(_equal(value, result) for result in node.values)
    expected = _as_time(node, node.values[0])
    if node.op == "contains":
        return _contains(value, expected)
    if node.op == "eq":
        return _equal(value, expected)
    return _ordered(node.op, value, expected)


def _value(node: Comparison, subject: Subject) -> Any:  # noqa: ANN401 - anything that JSON holds
    if node.field != "metadata":
        result: Any = getattr(subject, node.field)
        return None if result in ("", ()) else result
    value: Any = subject.metadata
    for key in node.path:
        value = cast("dict[str, Any]", value).get(key) if isinstance(value, dict) else None
    return value


def _as_time(node: Comparison, target: Scalar) -> Any:  # noqa: ANN401 # any type is intended
    is_time = node.field in TIME_FIELDS and isinstance(target, str)
    return datetime.fromisoformat(target) if is_time and isinstance(target, str) else target


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def _equal(value: Any, target: Any) -> bool:  # noqa: ANN401 # any type is intended
    if isinstance(value, datetime) and isinstance(target, str):
        target = datetime.fromisoformat(target)
    return _kind(value) == _kind(target) and bool(value == target)


def _ordered(op: Operator, value: Any, target: Any) -> bool:  # noqa: ANN401 # any type is intended
    if _kind(value) != _kind(target) or not isinstance(value, str | bool | int | float | datetime):
        return False
    return bool({"lt": value < target, "le": value <= target, "gt": value > target, "ge": value >= target}[op])


def _contains(value: Any, target: Any) -> bool:  # noqa: ANN401 # any type is intended
    if isinstance(value, str):
        return isinstance(target, str) and target in value
    members: list[Any] = list(cast("Any", value)) if isinstance(value, list | tuple) else []
    return any(_equal(member, target) for member in members)
