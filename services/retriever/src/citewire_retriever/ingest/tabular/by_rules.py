"""Answers a plain question over the one table of a file that it fits, with a text and a place to cite."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.cells import column_name
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.engine import Connection, answer
from citewire_retriever.ingest.tabular.tables import Table
from citewire_retriever.tables import columns as known
from citewire_retriever.tables.questions import read_question

_MOST_VALUES: Final = 20_000
"""Different values of a column by which a question may name rows; a column with more has no such."""
_MOST_TIED: Final = 100
_MOST_SHOWN: Final = 50
_SMALLEST: Final = Decimal("0.000001")
_EXACT: Final = Context(prec=100)


def answer_question(
    connection: Connection, tables: Sequence[Table], file_name: str, question: str, today: date
) -> pb.ComputedAnswer:
    """The answer to a question; an empty message if it is no query of any of the tables.

    Args:
        connection: To DuckDB.
        tables: The file's, with all of their cells.
        file_name: What the file is called.
        question: In English or German.
        today: What "last year" counts from.

    Raises:
        TableQueryError: It is one of several tables, or no exact answer can be given.
    """
    fitting = [
        (table, query)
        for table in tables
        if (query := read_question(question, _describe(table, file_name), today)) is not None
    ]
    if not fitting:
        return pb.ComputedAnswer()
    if len(fitting) > 1:
        raise TableQueryError("", "the question fits several tables")
    table, query = fitting[0]
    query.sheet, query.header_row = table.sheet, table.header_row
    asked = pb.TableQuery()
    asked.CopyFrom(query)
    if query.limit:
        asked.limit = query.limit + _MOST_TIED
    result = answer(connection, [table], asked)
    if query.limit:
        _cut_ranking(result, query)
    place = _place(table, result, ranked=bool(query.limit))
    where = f"sheet {table.sheet} of {file_name}" if table.sheet else file_name
    text = "\n".join([*_shown(query, result), _origin(question, query, result, place, where), *_notes(result)])
    return pb.ComputedAnswer(query=query, answer=result, place=place, text=text)


def _describe(table: Table, file_name: str) -> known.Table:
    """A table as questions see it; columns that can't be computed with have no part in it."""
    described: list[known.Column] = []
    for number, name in table.names.items():
        try:
            column = table.column(number)
        except TableQueryError:
            described.append(known.Column(name, pb.TABLE_TYPE_UNSPECIFIED))
            continue
        values = {value for value in column.values if value is not None}
        unique = None not in column.values and len(values) == len(column.values) > 0
        dates = sorted(value.date() for value in values if isinstance(value, datetime))
        texts = tuple(str(value) for value in values) if column.type == pb.TABLE_TYPE_TEXT else ()
        described.append(
            known.Column(
                name,
                column.type,
                values=texts if len(texts) <= _MOST_VALUES else (),
                unique=unique,
                first=dates[0] if dates else None,
                last=dates[-1] if dates else None,
                currency=column.currency,
            )
        )
    return known.Table(tuple(described), (table.sheet, file_name.rpartition(".")[0]))


def _cut_ranking(result: pb.TableAnswer, query: pb.TableQuery) -> None:
    """Leaves the first rows, and those that are equal to the last of them in what they are ordered by."""
    index = query.order_by[0].index - 1
    end = min(query.limit, len(result.rows))
    while 0 < end < len(result.rows) and result.rows[end].values[index] == result.rows[end - 1].values[index]:
        end += 1
    if end == query.limit + _MOST_TIED:
        raise TableQueryError("", "too many rows are equal in what they are ordered by")
    del result.rows[end:]


def _place(table: Table, result: pb.TableAnswer, *, ranked: bool) -> Place:
    """From the first to the last row that it was computed from; all of the table if these aren't listed, or compete."""
    numbers = [number for row in result.rows for number in row.row_numbers]
    listed = numbers and not ranked and all(len(row.row_numbers) == row.row_count for row in result.rows)
    first, last = (min(numbers), max(numbers)) if listed else (table.header_row + 1, table.last_row)
    place = Place(row=first)
    if last > first:
        place.end_row = last
    if table.sheet:
        place.sheet = table.sheet
        place.cell_range = f"{column_name(min(table.names))}{first}:{column_name(max(table.names))}{last}"
    return place


def _shown(query: pb.TableQuery, result: pb.TableAnswer) -> list[str]:
    """`Sum of Amount, where Region = North: 12.5 €.`, or groups line by line."""
    head = result.understood[:1].upper() + result.understood[1:]
    lines: list[str] = []
    count = sum(row.row_count for row in result.rows)
    if len(result.rows) == 1 and (count or result.rows[0].values[0].HasField("text")):
        lines.append(f"{head}: {_values(result, result.rows[0])}.")
    elif not count:
        lines.append(f"{head}: no rows match.")
    else:
        lines.append(f"{head}:")
        lines += [f"- {_values(result, row)}" for row in result.rows[:_MOST_SHOWN]]
        if result.total_rows > len(result.rows[:_MOST_SHOWN]) and not query.limit:
            lines.append(f"These are the first {len(result.rows[:_MOST_SHOWN])} of {result.total_rows}.")
    return lines


def _origin(question: str, query: pb.TableQuery, result: pb.TableAnswer, place: Place, where: str) -> str:
    """`Computed for “…” from 2 of rows 2–57 of Sales.csv`.

    With the question, whose every word the query has taken up: an answer in its words, in whatever language, is
    supported by them.
    """
    count = sum(row.row_count for row in result.rows)
    rows = f"rows {place.row}–{place.end_row}" if place.HasField("end_row") else f"row {place.row}"
    whole = query.limit or (place.end_row or place.row) - place.row + 1 == count
    asked = " ".join(question.split())
    return f"Computed for “{asked}” from {'' if whole else f'{count} of '}{rows} of {where}."


def _notes(result: pb.TableAnswer) -> list[str]:
    """What isn't among the rows or the values."""
    lines: list[str] = []
    if result.excluded_rows:
        lines.append(f"Left out as totals or notes: {', '.join(f'row {row}' for row in result.excluded_rows)}.")
    if result.skipped_values:
        lines.append(f"Values that don't fit their column, and count as empty: {result.skipped_values}.")
    return lines


def _values(result: pb.TableAnswer, row: pb.TableAnswerRow) -> str:
    texts = [_value(column, value) for column, value in zip(result.columns, row.values, strict=True)]
    return f"{', '.join(texts[:-1])}: {texts[-1]}" if len(texts) > 1 else texts[0]


def _value(column: pb.TableColumn, value: pb.TableValue) -> str:
    """A value as people write it; a mean with at most six decimals."""
    if not value.HasField("text"):
        return "none"
    if column.type not in {pb.TABLE_TYPE_NUMBER, pb.TABLE_TYPE_PERCENT, pb.TABLE_TYPE_CURRENCY}:
        return value.text
    number = Decimal(value.text)
    if column.type == pb.TABLE_TYPE_PERCENT:
        number = number.scaleb(2, _EXACT)
    short = number.quantize(_SMALLEST, ROUND_HALF_EVEN, _EXACT)
    sign = "%" if column.type == pb.TABLE_TYPE_PERCENT else f" {column.currency}" if column.currency else ""
    return f"{'about ' if short != number else ''}{short.normalize(_EXACT):f}{sign}"
