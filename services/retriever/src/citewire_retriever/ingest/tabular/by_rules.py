"""Answers a question over a table of a file, by rules or by a model's query, with a text and a place to cite."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final

from citewire.common.v1.place_pb2 import Place
from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.cells import column_name
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.engine import Connection, answer, choose
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.wording import Wording
from citewire_retriever.tables import columns as known
from citewire_retriever.tables.questions import asks_to_compute, read_question

_MOST_VALUES: Final = 20_000
"""Most different values of a column by which a question can select rows."""
_MOST_TIED: Final = 100


def answer_question(
    connection: Connection, tables: Sequence[Table], file_name: str, question: str, today: date
) -> pb.ComputedAnswer:
    """The answer to a question; an empty message if it doesn't match any of the tables.

    Args:
        connection: To DuckDB.
        tables: The file's tables, with all cells.
        file_name: The file's name.
        question: In English or German.
        today: The date that "last year" is relative to.

    Raises:
        TableQueryError: It matches several tables, or no exact answer can be given.
    """
    fitting = [
        (table, reading)
        for table in tables
        if (reading := read_question(question, _describe(table, file_name), today)) is not None
    ]
    if not fitting:
        return pb.ComputedAnswer()
    if len(fitting) > 1:
        raise TableQueryError("", "the question fits several tables")
    table, (query, language) = fitting[0]
    query.sheet, query.header_row = table.sheet, table.header_row
    return _answer(connection, table, query, file_name, Wording(language), question)


def answer_filled(
    connection: Connection, tables: Sequence[Table], file_name: str, question: str, query: pb.TableQuery
) -> pb.ComputedAnswer:
    """The answer to the query that a model made of a question; an empty message if no row matches.

    Its text doesn't repeat the question, as the query may not cover all of its words.

    Raises:
        TableQueryError: The query doesn't fit the tables, or no exact answer can be given.
    """
    table = choose(tables, query)
    query.sheet, query.header_row = table.sheet, table.header_row
    result = _answer(connection, table, query, file_name, Wording(asks_to_compute(question) or "en"), "")
    matched = any(row.row_count for row in result.answer.rows)
    return result if matched else pb.ComputedAnswer()


def _answer(  # the parts of an answer
    connection: Connection, table: Table, query: pb.TableQuery, file_name: str, wording: Wording, question: str
) -> pb.ComputedAnswer:
    asked = pb.TableQuery()
    asked.CopyFrom(query)
    ranked = bool(query.limit and query.order_by)
    if ranked:
        asked.limit = query.limit + _MOST_TIED
    result = answer(connection, [table], asked)
    if ranked:
        _cut_ranking(result, query)
    place = _place(table, result, ranked=ranked)
    text = wording.answer(question, query, table, result, place, file_name)
    return pb.ComputedAnswer(query=query, answer=result, place=place, text=text)


def _describe(table: Table, file_name: str) -> known.Table:
    """A table as questions see it, without columns that can't be used."""
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
    """Keeps the first rows, and those that tie with the last of them."""
    index = query.order_by[0].index - 1
    end = min(query.limit, len(result.rows))
    while 0 < end < len(result.rows) and result.rows[end].values[index] == result.rows[end - 1].values[index]:
        end += 1
    if end == query.limit + _MOST_TIED:
        raise TableQueryError("", "too many rows are equal in the columns that order them")
    del result.rows[end:]


def _place(table: Table, result: pb.TableAnswer, *, ranked: bool) -> Place:
    """From the first to the last row used; the whole table if these aren't listed, or were compared with others."""
    numbers = [number for row in result.rows for number in row.row_numbers]
    listed = numbers and not ranked and all(len(row.row_numbers) == row.row_count for row in result.rows)
    first, last = (min(numbers), max(numbers)) if listed else (table.header_row + 1, table.last_row)
    if table.by_lines:
        return Place(start_line=first, end_line=last)
    place = Place(row=first)
    if last > first:
        place.end_row = last
    if table.sheet:
        place.sheet = table.sheet
    if table.is_sheet:
        place.cell_range = f"{column_name(min(table.names))}{first}:{column_name(max(table.names))}{last}"
    return place
