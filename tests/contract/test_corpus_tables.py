"""ListTables and QueryTable over a real gRPC server, a real Postgres and confined processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from citewire.retriever.v1 import corpus_pb2
from citewire.retriever.v1 import table_pb2 as pb

from citewire_kit.errors import CitewireError, Code
from citewire_retriever.service import tables
from corpus_calls import LIMITS
from retriever_process import Caller

SALES = """Region;Amount;Day
Nord;1.234,50 €;31.01.2026
Süd;10,00 €;01.02.2026
Nord;0,25 €;02.02.2026
""".encode()
BY_REGION = pb.TableQuery(
    group_by=[pb.TableGroup(column="region")],
    aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="amount")],
    order_by=[pb.TableOrder(index=2, descending=True)],
)


@pytest.fixture
def retriever_settings() -> dict[str, object]:
    return {**LIMITS, "confinement": "available", "table_processes": 1, "table_max_bytes": 100_000}


async def upload(me: Caller, data: bytes = SALES, name: str = "sales.csv") -> int:
    return (await me.upload(corpus_pb2.UploadHeader(file_name=name), data)).document_id


async def query(me: Caller, document_id: int, asked: pb.TableQuery = BY_REGION, **fields: int) -> pb.QueryTableResponse:
    request = pb.QueryTableRequest(document_id=document_id, query=asked, **fields)
    return await me.unary(me.running.corpus.QueryTable, request)


async def test_a_query_is_answered_with_the_rows_it_comes_from(me: Caller) -> None:
    document_id = await upload(me)
    response = await query(me, document_id, version=1)
    answer = response.answer
    assert response.version == 1
    assert [[value.text for value in row.values] for row in answer.rows] == [["Nord", "1234.75"], ["Süd", "10"]]
    assert [list(row.row_numbers) for row in answer.rows] == [[2, 4], [3]]
    assert answer.columns[1] == pb.TableColumn(name="sum of Amount", type=pb.TABLE_TYPE_CURRENCY, currency="€")
    assert answer.understood == "sum of Amount by Region; ordered by sum of Amount, greatest first"
    for _ in range(2):  # the second time from memory
        listed = await me.unary(me.running.corpus.ListTables, pb.ListTablesRequest(document_id=document_id))
        (table,) = listed.tables
        assert (listed.version, table.header_row, table.last_row, table.row_count) == (1, 1, 4, 3)
        assert [column.type for column in table.columns] == [
            pb.TABLE_TYPE_TEXT, pb.TABLE_TYPE_CURRENCY, pb.TABLE_TYPE_DATE,
        ]  # fmt: skip
        assert list(table.columns[0].samples) == ["Nord", "Süd"]


async def test_a_document_is_queried_by_its_readers_only(me: Caller) -> None:
    document_id = await upload(me)
    await me.unary(me.running.corpus.ListTables, pb.ListTablesRequest(document_id=document_id))
    other = Caller(me.running, replace(me.tenant, org_id="another"))
    for call in (
        query(other, document_id),
        other.unary(other.running.corpus.ListTables, pb.ListTablesRequest(document_id=document_id)),
    ):
        with pytest.raises(CitewireError) as caught:
            await call
        assert (caught.value.code, caught.value.reason) == (Code.NOT_FOUND, "DOCUMENT_NOT_FOUND")


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        (pb.TableQuery(columns=["Price"]), "query.columns[0]"),
        (pb.TableQuery(columns=["Region"] * 101), "query.columns"),
        (pb.TableQuery(columns=[""]), "query.columns[0]"),
        (pb.TableQuery(columns=["x" * 301]), "query.columns[0]"),
        (pb.TableQuery(columns=["x" * 290] * 100 + ["y" * 9000]), "query"),
        (pb.TableQuery(filters=[pb.TableFilter(column="Region", values=["x"])]), "query.filters[0].op"),
        (
            pb.TableQuery(filters=[pb.TableFilter(column="Region", op=pb.TABLE_OPERATOR_EQ)]),
            "query.filters[0].values",
        ),
        (
            pb.TableQuery(filters=[pb.TableFilter(column="Region", op=pb.TABLE_OPERATOR_EMPTY, values=["x"])]),
            "query.filters[0].values",
        ),
        (pb.TableQuery(aggregates=[pb.TableAggregate(column="Amount")]), "query.aggregates[0].function"),
        (
            pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM)]),
            "query.aggregates[0].column",
        ),
        (pb.TableQuery(limit=1001), "query.limit"),
        (pb.TableQuery(order_by=[pb.TableOrder(index=4)]), "query.order_by[0].index"),
        (pb.TableQuery.FromString(b"\x22\x02\x08\x63"), "query.aggregates[0].function"),
    ],
)
async def test_a_wrong_query_names_its_field(me: Caller, asked: pb.TableQuery, field: str) -> None:
    document_id = await upload(me)
    with pytest.raises(CitewireError) as caught:
        await query(me, document_id, asked)
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert field in [violation.field for violation in caught.value.violations]


async def test_a_refused_query_says_why(me: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    text = await upload(me, b"No table", "a.txt")
    ambiguous = await upload(me, b"Item;Cost\na;1.50\nTotal North;1.50\n")
    long = await upload(me, b"Item,Cost\n" + b"a,1.50\n" * 20_000)
    asked = pb.TableQuery(aggregates=[pb.TableAggregate(function=pb.TABLE_FUNCTION_COUNT)])
    for document_id, problem in ((text, "none of them"), (ambiguous, "may be a total"), (long, "too large")):
        with pytest.raises(CitewireError) as caught:
            await query(me, document_id, asked)
        assert (caught.value.code, caught.value.reason) == (Code.FAILED_PRECONDITION, "TABLE_NOT_COMPUTED")
        assert problem in caught.value.message
    monkeypatch.setattr(tables, "EXTRA", "no_such_package")
    with pytest.raises(CitewireError, match=r"citewire-retriever\[tables\]") as caught:
        await query(me, text, asked)
    assert caught.value.reason == "TABLE_NOT_COMPUTED"


async def test_queries_of_one_organisation_queue_and_then_are_refused(me: Caller) -> None:
    document_id = await upload(me)
    await query(me, document_id)
    results = await asyncio.gather(*(query(me, document_id) for _ in range(16)), return_exceptions=True)
    refused = [result for result in results if isinstance(result, CitewireError)]
    assert 0 < len(refused) < 16
    assert {(error.code, error.reason, error.retry_after) for error in refused} == {
        (Code.RESOURCE_EXHAUSTED, "OVERLOADED", 1.0)
    }
