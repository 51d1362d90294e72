"""Filters: the grammar's checks, and that values never become part of the SQL."""

from __future__ import annotations

import pytest
from citewire.retriever.v1 import filter_pb2 as pb
from google.protobuf.struct_pb2 import Value
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from citewire_kit.errors import InvalidArgument
from citewire_retriever import filters
from citewire_retriever.filters import All, Filter, Operator, comparison, filter_from_proto
from citewire_retriever.model import Scope, Validity
from citewire_retriever.store.filter_sql import Parameters, filter_condition, scope_condition
from filter_oracle import any_filter

MARK = "x'\"; DROP TABLE corpus.documents --"


def texts(composed: sql.Composable) -> list[str]:
    """The literal parts of a statement."""
    if isinstance(composed, sql.Composed):
        return [text for part in composed for text in texts(part)]
    assert isinstance(composed, sql.SQL | sql.Placeholder)
    return [composed.as_string()]


@given(node=any_filter())
def test_a_statement_consists_of_our_own_text(node: Filter) -> None:
    parameters = Parameters()
    pieces = texts(filter_condition(node, parameters))
    placeholders = {piece for piece in pieces if piece.startswith("%(")}
    assert placeholders == {f"%({name})s" for name in parameters.values}
    assert "; " not in "".join(pieces)


@given(word=st.text(), key=st.text(st.characters(exclude_characters="."), min_size=1, max_size=40))
def test_values_and_keys_never_become_part_of_the_statement(word: str, key: str) -> None:
    marked, odd = f"{MARK}{word}", "\0" in word + key or any("\ud800" <= c <= "\udfff" for c in word + key)
    if odd:
        with pytest.raises(InvalidArgument):
            comparison("f", f"metadata.{key}", Operator.EQ, marked)
        return
    leaves = [comparison("f", f"metadata.{MARK.replace('.', ' ')}{key}", Operator.CONTAINS, marked)]
    leaves += [comparison("f", field, Operator.EQ, marked) for field in ("title", "tags", "id")]
    leaves.append(comparison("f", "title", Operator.IN, (marked, marked)))
    parameters = Parameters()
    scope = Scope(own=True, collection=marked, types=("file",), document_ids=(7,), filter=All(tuple(leaves)))
    assert "DROP" not in "".join(texts(scope_condition(scope, marked, parameters)))
    assert any(marked in str(value) for value in parameters.values.values())


def test_an_unlimited_scope_is_everything() -> None:
    parameters = Parameters()
    assert scope_condition(Scope(validity=Validity(any=True)), "me", parameters).as_string() == "true"
    assert parameters.values == {}
    assert not Scope().narrowed
    for scope in (Scope(own=True), Scope(document_ids=()), Scope(collection="c"), Scope(types=("file",))):
        assert scope.narrowed


def test_depth_and_size_are_limited() -> None:
    compared = pb.Comparison(field="title", op=pb.OPERATOR_EQ, value=Value(string_value="a"))
    leaf = deep = pb.Filter(comparison=compared)
    for _ in range(filters.MAX_DEPTH - 1):
        deep = pb.Filter(all=pb.FilterList(filters=[deep]))
    filter_from_proto("f", deep)
    with pytest.raises(InvalidArgument, match="8 levels"):
        filter_from_proto("f", pb.Filter(all=pb.FilterList(filters=[deep])))
    filter_from_proto("f", pb.Filter(all=pb.FilterList(filters=[leaf] * (filters.MAX_NODES - 1))))
    with pytest.raises(InvalidArgument, match="100 nodes"):
        filter_from_proto("f", pb.Filter(all=pb.FilterList(filters=[leaf] * filters.MAX_NODES)))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-01", "2024-05-01T00:00:00+00:00"),
        ("2024-05-01T10:00:00Z", "2024-05-01T10:00:00+00:00"),
        ("2024-05-01t10:00:00.25z", "2024-05-01T10:00:00.250000+00:00"),
        ("2024-05-01 10:00:00.123456789+05:30", "2024-05-01T04:30:00.123456+00:00"),
    ],
)
def test_dates_are_read_as_in_rfc_3339(text: str, moment: str) -> None:
    assert comparison("f", "created_at", Operator.LT, text).values == (moment,)


@pytest.mark.parametrize(
    "text",
    ["", "now", "20240501", "2024-13-01", "2024-05-01T10:00", "2024-05-01T10:00:00", "0001-01-01T00:00:00+14:00"],
)
def test_other_dates_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        comparison("filter", "updated_at", Operator.EQ, text)
    assert (refused.value.reason, refused.value.violations[0].field) == ("INVALID_FILTER", "filter.value")


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge", "contains"])
def test_only_in_accepts_a_list_and_no_operator_accepts_null(op: Operator) -> None:
    for value in ((), ("a",), None):
        with pytest.raises(InvalidArgument):
            comparison("f", "title", op, value)
