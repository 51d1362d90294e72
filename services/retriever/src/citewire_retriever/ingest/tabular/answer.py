"""The confined process's work on tables: lists them, or answers a query or a question over one."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from mmap import mmap
from typing import Any, Final

from citewire.retriever.v1 import table_pb2 as pb

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.tabular import TableQueryError
from citewire_retriever.ingest.tabular.by_rules import answer_filled, answer_question
from citewire_retriever.ingest.tabular.engine import Connection, answer, connect, used_names
from citewire_retriever.ingest.tabular.query import NUMBERS, REPEATED
from citewire_retriever.ingest.tabular.table import Table
from citewire_retriever.ingest.tabular.tables import read_tables
from citewire_retriever.ingest.tabular.values import shown
from citewire_retriever.tables.questions import preload

__all__ = ["answer_about_tables", "connect", "preload"]

_MOST_TABLES: Final = 200
_MOST_COLUMNS: Final = 200
_MOST_SAMPLES: Final = 5
_SAMPLE_CHARS: Final = 100


def answer_about_tables(
    data: bytes | mmap, job: dict[str, Any], limits: ParseLimits, connection: Connection
) -> dict[str, str]:
    """Does a job of `Sandbox.list_tables`, `query_table` or `answer_…`, and returns what `decode_tables` reads.

    Raises:
        IngestError: The file can't be read.
    """
    try:
        message: pb.TableAnswer | pb.ListTablesResponse | pb.ComputedAnswer
        if job["query"] is None:
            tables = read_tables(data, job["file_name"], job["media_type"], limits, None)
            if "question" in job:
                today = date.fromisoformat(job["today"])
                message = answer_question(connection, tables, job["file_name"], job["question"], today)
            else:
                message = list_tables(tables)
        else:
            query = pb.TableQuery.FromString(bytes.fromhex(job["query"]))
            tables = read_tables(data, job["file_name"], job["media_type"], limits, used_names(query))
            if "question" in job:
                message = answer_filled(connection, tables, job["file_name"], job["question"], query)
            else:
                message = answer(connection, tables, query)
    except TableQueryError as error:
        return {"field": error.field, "refusal": error.message}
    return {"message": message.SerializeToString().hex()}


def list_tables(tables: Sequence[Table]) -> pb.ListTablesResponse:
    """Describes tables; a column that can't be used says why."""
    return pb.ListTablesResponse(tables=[_describe(table) for table in tables[:_MOST_TABLES]])


def _describe(table: Table) -> pb.Table:
    result = pb.Table(
        sheet=table.sheet,
        header_row=table.header_row,
        last_row=table.last_row,
        row_count=len(table.rows),
        refusal=table.refusal,
    )
    for place, name in list(table.names.items())[:_MOST_COLUMNS]:
        try:
            column = table.column(place)
        except TableQueryError as error:
            result.columns.add(name=name, refusal=error.message)
            continue
        count = Counter(text for cell in table.cells[place] if (text := shown(cell)))
        result.columns.add(
            name=name,
            type=column.type,
            samples=[text[:_SAMPLE_CHARS] for text, _ in count.most_common(_MOST_SAMPLES)],
            currency=column.currency,
            refusal=column.refusal or (REPEATED if column.repeats and column.type in NUMBERS else ""),
        )
    return result
