"""Answers queries in DuckDB, an optional package: `pip install 'citewire-retriever[tables]'`.

The connection is made before the process is confined, as it inspects the machine then. It has one thread, no files, no
extensions, and a memory limit.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Context, Decimal
from typing import Any, Final

import duckdb
import numpy as np
import numpy.ma as masked
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.dates import as_date
from citewire_retriever.ingest.tabular.query import NUMBERS, Compiler, Output, Statement
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.values import Column, fold, scale_of

Connection = duckdb.DuckDBPyConnection

_DEFAULT_LIMIT: Final = 100
_MOST_LISTED: Final = 100
_SETTINGS: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,
    "async_threads": 0,
    "memory_limit": "512MB",
    "max_temp_directory_size": "0B",
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "pandas_analyze_sample": 0,  # object arrays are texts
    "lock_configuration": True,
}
_WORD: Final = 2**63
_EXACT: Final = Context(prec=200)
_QUOTIENT: Final = Context(prec=34)
_DTYPES: Final[dict[pb.TableType, str]] = {pb.TABLE_TYPE_DATE: "datetime64[us]", pb.TABLE_TYPE_BOOLEAN: "bool"}


def connect() -> Connection:
    """Connects to an in-memory database, and uses it once so that everything it needs from files is loaded."""
    connection = duckdb.connect(":memory:", config=_SETTINGS)
    column = Column(pb.TABLE_TYPE_NUMBER, [Decimal("0.5"), Decimal(10) ** 30, None])
    connection.register("t", {"c1": _array(column), "c2": _texts(["", "a", None])})
    connection.execute("SELECT sum(c1::HUGEINT), min(c2, 2) FROM t").fetchall()
    connection.unregister("t")
    return connection


def answer(connection: Connection, tables: Sequence[Table], query: pb.TableQuery) -> pb.TableAnswer:
    """The answer to a query over the one table that has its columns.

    Raises:
        TableQueryError: No table or several have them, the query doesn't fit, or no exact answer can be given.
    """
    table = choose(tables, query)
    if table.refusal:
        raise TableQueryError("", f"the table at row {table.header_row} can't be queried: {table.refusal}")
    compiler = Compiler(table, query)
    statement = compiler.compile()
    arrays: dict[str, Any] = {"n": np.array(table.rows, dtype=np.int64)}
    for place, column in compiler.columns.items():
        arrays[f"c{place}"] = _array(column)
        if place in compiler.folded:
            arrays[f"f{place}"] = _texts([None if value is None else fold(str(value)) for value in column.values])
    try:
        return _run(connection, arrays, table, statement, query.limit or _DEFAULT_LIMIT, compiler)
    except duckdb.OutOfRangeException:
        raise TableQueryError("", "a sum has more than 38 digits") from None
    except duckdb.OutOfMemoryException:
        raise TableQueryError("", "the query needs more memory than is allowed: ask for less at once") from None


def choose(tables: Sequence[Table], query: pb.TableQuery) -> Table:
    """The table that a query is about."""
    if not tables:
        raise TableQueryError("", "the document has no table with a row of column names")
    candidates = [table for table in tables if not query.sheet or fold(table.sheet) == fold(query.sheet)]
    if not candidates:
        names = ", ".join(dict.fromkeys(table.sheet for table in tables))
        raise TableQueryError("query.sheet", f"must be one of the document's sheets: {names[:300]}")
    if query.header_row:
        candidates = [table for table in candidates if table.header_row == query.header_row]
        if not candidates:
            raise TableQueryError("query.header_row", "must be the row of a table's header")
    names = {fold(name) for name in _names_in(query)}
    fitting = [table for table in candidates if names <= {fold(name) for name in table.names.values()}]
    if len(fitting) > 1:
        where = "; ".join(f"{table.sheet or 'the sheet'}, row {table.header_row}" for table in fitting[:5])
        raise TableQueryError("query.header_row", f"must say, with sheet, which of several tables is meant: {where}")
    return (fitting or candidates)[0]


def used_names(query: pb.TableQuery) -> frozenset[str] | None:
    """The folded names of the columns that a query uses; None if it shows all columns."""
    names = frozenset(map(fold, _names_in(query)))
    return None if not query.columns and not (query.group_by or query.aggregates) else names


def _names_in(query: pb.TableQuery) -> list[str]:
    used = [*query.filters, *query.group_by, *query.aggregates]
    return [*query.columns, *(each.column for each in used if each.column)]


def _array(column: Column) -> Any:  # noqa: ANN401 - numpy's types of elements differ
    """A column's values as numpy arrays for DuckDB: numbers as integer multiples of a power of ten."""
    if column.type == pb.TABLE_TYPE_TEXT:
        return _texts(column.values)
    missing = [value is None for value in column.values]
    if column.type not in NUMBERS:
        empty = datetime(1970, 1, 1) if column.type == pb.TABLE_TYPE_DATE else False  # noqa: DTZ001 - a sheet's dates have no zone
        values = [empty if value is None else value for value in column.values]
        return masked.array(np.array(values, dtype=_DTYPES[column.type]), mask=missing)
    numbers = [value for value in column.values if isinstance(value, Decimal)]
    scale = scale_of(numbers) or 0
    whole = [int(value.scaleb(scale, _EXACT)) if isinstance(value, Decimal) else 0 for value in column.values]
    if all(-_WORD < number < _WORD for number in whole):
        return masked.array(np.array(whole, dtype=np.int64), mask=missing)
    return _texts([None if empty else str(number) for number, empty in zip(whole, missing, strict=True)])


def _texts(values: Sequence[object | None]) -> Any:  # noqa: ANN401 - numpy's types of elements differ
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _run(  # the parts of a query
    connection: Connection, arrays: dict[str, Any], table: Table, statement: Statement, limit: int, compiler: Compiler
) -> pb.TableAnswer:
    names = ", ".join(
        f"{name}::HUGEINT AS {name}" if name[0] == "c" and compiler.columns[int(name[1:])].type in NUMBERS else name
        for name in arrays
    )
    connection.register("arrays", arrays)
    connection.execute(f"CREATE TABLE whole AS SELECT {names} FROM arrays")  # noqa: S608 # names are ours
    connection.unregister("arrays")
    source = f"FROM whole WHERE {statement.condition}"
    _check_totals(connection, table, statement, source)
    _check_headings(connection, table, compiler, statement, source)
    expressions = [expression for output in statement.outputs for expression in output.expressions]
    outputs = "".join(f"{expression} AS o{index}, " for index, expression in enumerate(expressions))
    groups = ", ".join(f"o{index}" for index in range(statement.groups))
    if statement.is_aggregate:
        inner = f"SELECT {outputs}min(n, {_MOST_LISTED}) AS rows, count(*) AS row_count {source}"
        inner += f" GROUP BY {groups}" if groups else ""
        ties = [f"o{index} ASC NULLS LAST" for index in range(statement.groups)]
    else:
        inner = f"SELECT {outputs}[n] AS rows, 1 AS row_count {source}"
        ties = ["rows"]
    order = ", ".join([*statement.order, *ties])
    ordered = f" ORDER BY {order}" if order else ""
    outer = f"SELECT *, count(*) OVER () FROM ({inner}){ordered} LIMIT ?"  # noqa: S608 # all parts are ours
    rows = connection.execute(outer, [*statement.parameters, limit]).fetchall()
    result = pb.TableAnswer(
        sheet=table.sheet,
        header_row=table.header_row,
        last_row=table.last_row,
        columns=[output.column for output in statement.outputs],
        total_rows=rows[0][-1] if rows else 0,
        understood=statement.understood,
        excluded_rows=table.excluded[:_MOST_LISTED],
    )
    for row in rows:
        result.rows.append(_answer_row(statement.outputs, row))
    skipped = [table.rows[index] for column in compiler.columns.values() for index in column.skipped]
    result.skipped_values = len(skipped)
    result.skipped_rows.extend(sorted(set(skipped))[:_MOST_LISTED])
    return result


def _check_totals(connection: Connection, table: Table, statement: Statement, source: str) -> None:
    """Refuses to add or rank rows if one may be the total of others."""
    if not (statement.is_aggregate or statement.order) or not table.maybe_totals:
        return
    number = _first_used(connection, statement, source, list(table.maybe_totals))
    if number is not None:
        label = table.maybe_totals[number]
        problem = f"row {number} ({label!r}) may be a total of others: leave it out with a filter"
        raise TableQueryError("", f"{problem}, so that nothing counts twice")


def _check_headings(
    connection: Connection, table: Table, compiler: Compiler, statement: Statement, source: str
) -> None:
    """Refuses to count rows if some may be headings of others; they have no values to add."""
    counts = statement.is_aggregate and (statement.counts_rows or min(table.names) in compiler.columns)
    if not counts or not 0 < len(table.headings) < len(table.rows):
        return
    number = _first_used(connection, statement, source, table.headings)
    if number is not None:
        raise TableQueryError("", f"row {number} may be a heading of those below it: leave it out with a filter")


def _first_used(connection: Connection, statement: Statement, source: str, numbers: list[int]) -> int | None:
    """The first of these rows that the query's filters leave in."""
    sql = f"SELECT min(n) {source} AND n IN (SELECT unnest(?))"
    row = connection.execute(sql, [*statement.parameters, numbers]).fetchone()
    return row[0] if row is not None else None


def _answer_row(outputs: Sequence[Output], row: tuple[Any, ...]) -> pb.TableAnswerRow:
    result = pb.TableAnswerRow(row_numbers=row[-3] or [], row_count=row[-2])
    index = 0
    for output in outputs:
        parts = row[index : index + len(output.expressions)]
        index += len(parts)
        text = _text(output, *parts)
        result.values.append(pb.TableValue() if text is None else pb.TableValue(text=text))
    return result


def _text(output: Output, value: Any, divisor: Any = 1) -> str | None:  # noqa: ANN401 - DuckDB returns any type
    if value is None or divisor is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return as_date(value)
    if isinstance(value, str):
        return value
    number = Decimal(value).scaleb(-output.scale, _EXACT)
    if divisor != 1:
        number = _QUOTIENT.divide(number, Decimal(divisor))
    return f"{number.normalize(_EXACT):f}" if number else "0"
