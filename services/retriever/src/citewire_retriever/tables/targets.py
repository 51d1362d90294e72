"""The target of a question over a table, and the resulting query with its conditions."""

from dataclasses import dataclass
from typing import cast

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.tables.columns import Table
from citewire_retriever.tables.conditions import Conditions, Tail


@dataclass(frozen=True, slots=True)
class Computation:
    """A computation: a function of a column, or of the rows."""

    function: int
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a question, before its conditions."""

    computation: Computation | None
    """None if rows are shown as they are."""
    group: int | None = None
    """The column with the ranked values or the rows' names; None for the rows themselves."""
    unit: str = ""
    """Or the unit of time that is ranked."""
    order_by: int | None = None
    """The column for ordering rows shown as they are."""
    top: int = 0
    descending: bool = True
    bare: bool = False
    """Whether only a column is named, which is only meaningful with a condition or group."""


def query_of(table: Table, conditions: Conditions, target: Target, tail: Tail) -> pb.TableQuery | None:
    """The query; None if its parts don't fit together."""
    if not tail.consistent:
        return None
    query = pb.TableQuery(filters=tail.filters)
    groups = list(tail.groups)
    if target.group is not None and target.computation is not None:
        groups.insert(0, pb.TableGroup(column=table.columns[target.group].name))
    if target.unit:
        dated = conditions.groups_of(target.unit)
        if not dated:
            return None
        groups = [*dated, *groups]
    filtered = {filter_.column for filter_ in tail.filters if filter_.op == pb.TABLE_OPERATOR_EQ}
    if (target.top and tail.groups) or any(group.column in filtered for group in groups):
        return None
    query.group_by.extend(groups)
    if target.computation is None:
        return _rows(table, query, target)
    if target.bare and not (tail.filters or tail.groups):
        return None  # "What is revenue?"
    column = target.computation.column
    averaged = target.computation.function in {pb.TABLE_FUNCTION_AVG, pb.TABLE_FUNCTION_MEDIAN}
    if tail.ratio and averaged and column is not None and table.headers[column].is_amount:
        return None  # "average revenue per customer" may be a mean of sums
    name = "" if column is None else table.columns[column].name
    if any(group.column == name for group in groups):
        return None
    query.aggregates.add(function=cast("pb.TableFunction", target.computation.function), column=name)
    if target.top:
        query.order_by.add(index=len(groups) + 1, descending=target.descending)
        query.limit = target.top
    return query


def _rows(table: Table, query: pb.TableQuery, target: Target) -> pb.TableQuery | None:
    """Rows in order, with the requested columns; all columns if rows were requested."""
    if target.order_by is None or query.group_by or target.order_by == target.group:
        return None
    index = target.order_by + 1
    if target.group is not None:
        query.columns.extend(table.columns[at].name for at in (target.group, target.order_by))
        index = 2
    query.order_by.add(index=index, descending=target.descending)
    query.limit = target.top
    return query
