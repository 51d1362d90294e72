"""Filters from the words of a question: what it says outright, and nothing that it doesn't."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from citewire.retriever.v1 import filter_pb2
from citewire.retriever.v1.filter_pb2 import OPERATOR_CONTAINS, OPERATOR_EQ, OPERATOR_GE, OPERATOR_LT, Filter
from google.protobuf.struct_pb2 import Value

from citewire_retriever.service.query_filters import derive_filter

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)  # a Saturday


def compare(field: str, op: filter_pb2.Operator, value: str) -> Filter:
    return Filter(comparison=filter_pb2.Comparison(field=field, op=op, value=Value(string_value=value)))


def every(conditions: tuple[Filter, ...]) -> Filter:
    return Filter(all=filter_pb2.FilterList(filters=conditions))


def tag(value: str) -> Filter:
    return compare("tags", OPERATOR_CONTAINS, value)


def since(text: str) -> Filter:
    return compare("created_at", OPERATOR_GE, f"{text}T00:00:00Z")


def until(text: str) -> Filter:
    return compare("created_at", OPERATOR_LT, f"{text}T00:00:00Z")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is new in #rust?", tag("rust")),
        ('Which recipes are tagged "to cook"?', tag("to cook")),
        ("Notes tagged with work.", tag("work")),
        ("Anything in the category recipes?", compare("metadata.category", OPERATOR_EQ, "recipes")),
        ("Show entity type person", compare("metadata.entity_type", OPERATOR_EQ, "person")),
        ("What did I save? I saved it today", since("2026-11-21")),
        ("Articles I saved yesterday about vectors", every((since("2026-11-20"), until("2026-11-21")))),
        ("Which articles were saved last week?", every((since("2026-11-09"), until("2026-11-16")))),
        ("saved this week", since("2026-11-16")),
        ("added last month", every((since("2026-10-01"), until("2026-11-01")))),
        ("bookmarked last year", every((since("2025-01-01"), until("2026-01-01")))),
        ("added in the last 3 days", since("2026-11-18")),
        ("saved in the past week", since("2026-11-14")),
        ("saved within the last two weeks", since("2026-11-07")),
        ("captured in March 2025", every((since("2025-03-01"), until("2025-04-01")))),
        ("captured in December", every((since("2025-12-01"), until("2026-01-01")))),
        ("saved since May", since("2026-05-01")),
        ("saved before 2024", until("2024-01-01")),
        ("saved after 2025-03-01", since("2025-03-02")),
        ("uploaded in 2025", every((since("2025-01-01"), until("2026-01-01")))),
        ("#rust articles saved this year", every((tag("rust"), since("2026-01-01")))),
    ],
)
def test_what_a_question_says(question: str, expected: Filter) -> None:
    query_filter = derive_filter(question, NOW)
    assert query_filter is not None
    assert query_filter.filter == expected
    assert query_filter.phrases


@pytest.mark.parametrize(
    "question",
    [
        "How much did revenue grow in 2024?",
        "What happened last week?",
        "Who is number #1?",
        "Is C# better than F#?",
        "What does the page https://example.org/#intro say?",
        "Which money was saved by the new plan?",
        "What is a category?",
        "Files added in the wrong place",
        "added on 2025-13-45",
        "",
    ],
)
def test_what_a_question_does_not_say(question: str) -> None:
    assert derive_filter(question, NOW) is None


def test_an_hour_counts_from_now() -> None:
    query_filter = derive_filter("saved in the last hour", NOW)
    assert query_filter is not None
    assert query_filter.filter == compare("created_at", OPERATOR_GE, "2026-11-21T14:30:00Z")
    assert list(query_filter.phrases) == ["saved in the last hour"]
