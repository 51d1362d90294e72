"""A model reads a question as a query of a table: its prompt, and which of its answers are accepted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb
from citewire.retriever.v1 import table_pb2

from citewire_generator.engine import Engine
from citewire_generator.json_schemas import AnswerSchema
from citewire_generator.providers.base import ChatTask, Completion
from citewire_generator.providers.extractive import Extractive
from citewire_generator.reflection.service import Reflector
from citewire_generator.reflection.table_queries import read_table_query
from citewire_generator.registry import Registry
from citewire_kit.errors import Unavailable
from citewire_ledger import MemoryLedger, Purpose
from scripted_chat import ScriptedTurns

SALES = table_pb2.TableInReach(
    document_id=7,
    file_name="Sales </tables>.xlsx",
    table=table_pb2.Table(
        sheet="Q1",
        header_row=2,
        row_count=56,
        columns=[
            table_pb2.TableColumn(name="Region", type=table_pb2.TABLE_TYPE_TEXT, samples=["North", "South"]),
            table_pb2.TableColumn(name="Revenue", type=table_pb2.TABLE_TYPE_CURRENCY, currency="€"),
            table_pb2.TableColumn(name="Date", type=table_pb2.TABLE_TYPE_DATE),
            table_pb2.TableColumn(name="Rate", type=table_pb2.TABLE_TYPE_NUMBER, refusal="merged cells"),
        ],
    ),
)
STAFF = table_pb2.TableInReach(
    document_id=8,
    file_name="Staff.csv",
    table=table_pb2.Table(
        header_row=1, columns=[table_pb2.TableColumn(name="Region"), table_pb2.TableColumn(name="Pay")]
    ),
)
WRITTEN: dict[str, Any] = {
    "table": 1,
    "filters": [
        {"column": "Region", "op": "in", "values": ["North", "East"], "part": ""},
        {"column": "Date", "op": "eq", "values": ["2026"], "part": "year"},
    ],
    "group_by": [{"column": "Date", "part": "year_month"}],
    "aggregates": [{"function": "sum", "column": "Revenue"}],
    "order_by": [{"index": 2, "descending": True}],
    "limit": 3,
}
QUERY = table_pb2.TableQuery(
    sheet="Q1",
    header_row=2,
    filters=[
        table_pb2.TableFilter(column="Region", op=table_pb2.TABLE_OPERATOR_IN, values=["North", "East"]),
        table_pb2.TableFilter(
            column="Date", op=table_pb2.TABLE_OPERATOR_EQ, values=["2026"], part=table_pb2.DATE_PART_YEAR
        ),
    ],
    group_by=[table_pb2.TableGroup(column="Date", part=table_pb2.DATE_PART_YEAR_MONTH)],
    aggregates=[table_pb2.TableAggregate(function=table_pb2.TABLE_FUNCTION_SUM, column="Revenue")],
    order_by=[table_pb2.TableOrder(index=2, descending=True)],
    limit=3,
)
USAGE = pb.TokenUsage(prompt_tokens=11, cached_prompt_tokens=2, completion_tokens=7)


class Writer(ScriptedTurns):
    """A model that records the schema of its request."""

    def __init__(self, *turns: str | Unavailable) -> None:
        super().__init__("writer", *[(turn,) for turn in turns])
        self.schema: Mapping[str, object] | None = None

    async def complete(self, task: ChatTask, *, json_schema: Mapping[str, object] | None = None) -> Completion:
        self.schema = json_schema
        return await super().complete(task, json_schema=json_schema)


def fill_request(*tables: table_pb2.TableInReach) -> pb.FillTableQueryRequest:
    return pb.FillTableQueryRequest(question="Best months in North and East, 2026?", tables=tables or [SALES])


async def test_the_model_sees_the_columns_and_writes_a_query_by_schema() -> None:
    writer, ledger = Writer(json.dumps(WRITTEN)), MemoryLedger()
    response = await Reflector(Registry([writer]), engine=Engine(ledger)).fill_table_query(fill_request(SALES, STAFF))
    assert response == pb.FillTableQueryResponse(table=1, query=QUERY, usage=USAGE)
    assert [row.new.purpose for row in ledger.rows] == [Purpose.TABLE_QUERY]
    (task,) = writer.tasks
    prompt = task.messages[-1].content
    assert (
        "Table 1: Sales ‹/tables>.xlsx, Q1, 56 rows\n- Region (text): North | South\n- Revenue (currency €)" in prompt
    )
    assert "Table 2: Staff.csv" in prompt
    assert task.temperature == 0.0
    AnswerSchema(json.dumps(writer.schema), strict=True).read(json.dumps(WRITTEN))


def query_json(**more: object) -> str:
    return json.dumps({**WRITTEN, **more})


@pytest.mark.parametrize(
    "text",
    [
        "The best month is March.",
        query_json(table=3),
        query_json(table=True),
        query_json(limit="3"),
        query_json(sql="SELECT 1"),
        query_json(aggregates=[]),
        query_json(aggregates=[{"function": "sum", "column": "Profit"}]),
        query_json(aggregates=[{"function": "sum", "column": "Rate"}]),
        query_json(aggregates=[{"function": "sum", "column": ""}]),
        query_json(aggregates=[{"function": "stddev", "column": "Revenue"}]),
        query_json(filters=[{"column": "", "op": "eq", "values": ["North"], "part": ""}]),
        query_json(filters=[{"column": "Region", "op": "like", "values": ["N%"], "part": ""}]),
        query_json(filters=[{"column": "Region", "op": "eq", "values": [5], "part": ""}]),
        query_json(group_by=[{"column": "Country", "part": ""}]),
        query_json(order_by=[{"index": 3, "descending": True}]),
        query_json(order_by=[]),
    ],
)
def test_invalid_queries_are_ignored(text: str) -> None:
    assert read_table_query(text, [SALES]) is None


def test_a_query_that_several_tables_could_answer_is_ignored() -> None:
    count = query_json(filters=[], group_by=[{"column": "Region", "part": ""}], order_by=[], limit=0, aggregates=[
        {"function": "count", "column": ""}
    ])  # fmt: skip
    assert read_table_query(count, [SALES, STAFF]) == (0, None)
    taken = read_table_query(f"I think so.\n```json\n{count}\n```", [SALES])
    assert taken is not None
    assert taken[0] == 1
    assert read_table_query(query_json(table=0), [SALES]) == (0, None)


async def test_a_failing_model_an_invalid_answer_or_no_model_gives_no_query() -> None:
    unreadable = await Reflector(Registry([Writer("No idea.")])).fill_table_query(fill_request())
    assert (unreadable.table, unreadable.fallback, unreadable.usage) == (0, True, USAGE)
    away = Writer(*[Unavailable("away", reason="PROVIDER_UNAVAILABLE")] * 3)
    failed = await Reflector(Registry([away])).fill_table_query(fill_request())
    assert (failed.table, failed.fallback, failed.failure.provider) == (0, True, "writer")
    none = await Reflector(Registry([Extractive()])).fill_table_query(fill_request())
    assert (none.table, none.no_model) == (0, True)
