"""Checks requests about tables; whether they fit a table is known only where that is read."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_kit.errors import Violations
from citewire_kit.time_zones import find_time_zone
from citewire_retriever.converters.checks import check_id, check_text
from citewire_retriever.converters.documents import check_version

MOST_BYTES: Final = 32 * 1024
_MOST_NAME: Final = 300
_MOST_VALUE: Final = 1000
_MOST_VALUES: Final = 500
MOST_ROWS: Final = 1000
_MOST_DOCUMENTS: Final = 8
_MOST_QUESTION: Final = 2000
_MOST_LINE: Final = 2**31 - 1
_NO_VALUE: Final = frozenset({pb.TABLE_OPERATOR_EMPTY, pb.TABLE_OPERATOR_FILLED})


def tables_from_proto(request: pb.ListTablesRequest) -> tuple[int, int | None]:
    """Reads a document's id and the requested version, if any."""
    violations = Violations()
    result = check_version(violations, request)
    violations.raise_if_any()
    return result


def table_query_from_proto(request: pb.QueryTableRequest) -> tuple[int, int | None, pb.TableQuery]:
    """Reads a document's id, the requested version, if any, and a query."""
    violations = Violations()
    document_id, version = check_version(violations, request)
    violations.require(request.HasField("query"), "query", "is required")
    _check_query(violations, request.query)
    violations.raise_if_any()
    return document_id, version, request.query


def _check_query(violations: Violations, query: pb.TableQuery) -> None:
    violations.require(query.ByteSize() <= MOST_BYTES, "query", f"must have at most {MOST_BYTES:,} bytes in all")
    _check_counts(violations, query)
    for index, name in enumerate(query.columns):
        _check_name(violations, f"query.columns[{index}]", name)
    for index, each in enumerate(query.filters):
        _check_filter(violations, f"query.filters[{index}]", each)
    for index, group in enumerate(query.group_by):
        _check_name(violations, f"query.group_by[{index}].column", group.column)
        _check_enum(violations, f"query.group_by[{index}].part", group.part, pb.DatePart.values())
    for index, aggregate in enumerate(query.aggregates):
        where = f"query.aggregates[{index}]"
        _check_enum(violations, f"{where}.function", aggregate.function, pb.TableFunction.values()[1:])
        if aggregate.column or aggregate.function != pb.TABLE_FUNCTION_COUNT:
            _check_name(violations, f"{where}.column", aggregate.column)
    check_text(violations, "query.sheet", query.sheet, longest=_MOST_NAME)
    violations.require(query.limit <= MOST_ROWS, "query.limit", f"must be at most {MOST_ROWS:,}")
    violations.require(query.header_row <= _MOST_LINE, "query.header_row", "must be the row of a table's header")


def table_question_from_proto(request: pb.AnswerFromTablesRequest) -> tuple[str, list[int], date]:
    """Reads a question, the documents that may answer it, and the caller's current day."""
    violations = Violations()
    check_text(violations, "question", request.question, longest=_MOST_QUESTION, needed=True)
    count = len(request.document_ids)
    violations.require(1 <= count <= _MOST_DOCUMENTS, "document_ids", f"must be 1 to {_MOST_DOCUMENTS}")
    for index, document_id in enumerate(request.document_ids[:_MOST_DOCUMENTS]):
        check_id(violations, f"document_ids[{index}]", document_id)
    zone = find_time_zone(request.time_zone)
    violations.require(zone is not None, "time_zone", "must be an IANA name such as Europe/Berlin")
    if request.HasField("query"):
        violations.require(count == 1, "document_ids", "must contain one id if query is given")
        _check_query(violations, request.query)
    violations.raise_if_any()
    return request.question, list(dict.fromkeys(request.document_ids)), datetime.now(zone or UTC).date()


def _check_counts(violations: Violations, query: pb.TableQuery) -> None:
    counts = (
        ("columns", query.columns, 100),
        ("filters", query.filters, 50),
        ("group_by", query.group_by, 10),
        ("aggregates", query.aggregates, 20),
        ("order_by", query.order_by, 10),
    )
    for name, values, most in counts:
        violations.require(len(values) <= most, f"query.{name}", f"must be at most {most}")


def _check_name(violations: Violations, field: str, name: str) -> None:
    check_text(violations, field, name, longest=_MOST_NAME, needed=True)


def _check_enum(violations: Violations, field: str, value: int, known: Sequence[int]) -> None:
    violations.require(value in known, field, "must be one of the contract's values")


def _check_filter(violations: Violations, field: str, each: pb.TableFilter) -> None:
    _check_name(violations, f"{field}.column", each.column)
    _check_enum(violations, f"{field}.op", each.op, pb.TableOperator.values()[1:])
    _check_enum(violations, f"{field}.part", each.part, pb.DatePart.values())
    if each.op in _NO_VALUE:
        violations.require(not each.values, f"{field}.values", "must be empty for this operator")
    elif each.op == pb.TABLE_OPERATOR_IN:
        violations.require(1 <= len(each.values) <= _MOST_VALUES, f"{field}.values", f"must be 1 to {_MOST_VALUES}")
    else:
        violations.require(len(each.values) == 1, f"{field}.values", "must be one value")
    for index, value in enumerate(each.values):
        check_text(violations, f"{field}.values[{index}]", value, longest=_MOST_VALUE)
