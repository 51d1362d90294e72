"""`/v1/documents/{id}/tables` over real HTTP: requests to the retriever, and responses made of its answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from citewire.retriever.v1 import table_pb2 as pb

from citewire_kit.errors import FailedPrecondition, invalid_field
from gateway_fake_servers import running_fakes
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

TEXT = {"type": "article", "title": "Notes", "content": "# Words\n\nMore words."}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


@pytest.fixture
async def address(gateway: Gateway) -> str:
    document = (await gateway.http.post("/v1/documents", json=TEXT)).json()
    return f"/v1/documents/{document['id']}/tables"


async def test_tables_are_listed(gateway: Gateway, address: str) -> None:
    columns = [
        pb.TableColumn(name="Region", type=pb.TABLE_TYPE_TEXT, samples=["North"]),
        pb.TableColumn(name="Amount", type=pb.TABLE_TYPE_CURRENCY, samples=["1.5"], currency="€", refusal="why"),
    ]
    gateway.fakes.corpus.tables = [
        pb.Table(sheet="Sales", header_row=1, last_row=9, row_count=8, columns=columns),
        pb.Table(header_row=12, last_row=13, row_count=1, refusal="because"),
    ]
    response = await gateway.http.get(address, params={"version": 3})
    assert response.json() == {
        "version": 3,
        "tables": [
            {
                "sheet": "Sales", "header_row": 1, "last_row": 9, "row_count": 8,
                "columns": [
                    {"name": "Region", "type": "text", "samples": ["North"]},
                    {"name": "Amount", "type": "currency", "samples": ["1.5"], "currency": "€", "refusal": "why"},
                ],
            },
            {"header_row": 12, "last_row": 13, "row_count": 1, "columns": [], "refusal": "because"},
        ],
    }  # fmt: skip
    assert (await gateway.http.get("/v1/documents/999/tables")).status_code == 404
    assert (await gateway.http.get("/v1/documents/x/tables")).status_code == 404


async def test_a_query_reaches_the_retriever_whole(gateway: Gateway, address: str) -> None:
    gateway.fakes.corpus.table_answer = pb.TableAnswer(
        header_row=1, last_row=9, total_rows=2, understood="sum of Amount by Region", excluded_rows=[9],
        columns=[pb.TableColumn(name="Region", type=pb.TABLE_TYPE_TEXT)],
        rows=[
            pb.TableAnswerRow(values=[pb.TableValue(text="North")], row_numbers=[2, 4], row_count=2),
            pb.TableAnswerRow(values=[pb.TableValue()], row_numbers=[3], row_count=1),
        ],
    )  # fmt: skip
    body: dict[str, Any] = {
        "filters": [
            {"column": "Date", "part": "year", "op": "eq", "values": [2026]},
            {"column": "Paid", "op": "in", "values": [True, "no", 0.1, 1e-7, "12345678901234567.89"]},
            {"column": "Note", "op": "empty"},
        ],
        "group_by": [{"column": "Region"}, {"column": "Date", "part": "year_month"}],
        "aggregates": [{"function": "sum", "column": "Amount"}, {"function": "count"}],
        "order_by": [{"index": 3, "descending": True}, {"index": 1}],
        "limit": 7, "sheet": "Sales", "header_row": 4, "version": 2,
    }  # fmt: skip
    response = await gateway.http.post(f"{address}:query", json=body)
    assert response.json() == {
        "version": 1, "header_row": 1, "last_row": 9, "understood": "sum of Amount by Region",
        "columns": [{"name": "Region", "type": "text"}],
        "rows": [
            {"values": ["North"], "row_numbers": [2, 4], "row_count": 2},
            {"values": [None], "row_numbers": [3], "row_count": 1},
        ],
        "total_rows": 2, "excluded_rows": [9], "skipped_values": 0, "skipped_rows": [],
    }  # fmt: skip
    query = pb.TableQuery(
        filters=[
            pb.TableFilter(column="Date", part=pb.DATE_PART_YEAR, op=pb.TABLE_OPERATOR_EQ, values=["2026"]),
            pb.TableFilter(
                column="Paid",
                op=pb.TABLE_OPERATOR_IN,
                values=["true", "no", "0.1", "0.0000001", "12345678901234567.89"],
            ),
            pb.TableFilter(column="Note", op=pb.TABLE_OPERATOR_EMPTY),
        ],
        group_by=[pb.TableGroup(column="Region"), pb.TableGroup(column="Date", part=pb.DATE_PART_YEAR_MONTH)],
        aggregates=[
            pb.TableAggregate(function=pb.TABLE_FUNCTION_SUM, column="Amount"),
            pb.TableAggregate(function=pb.TABLE_FUNCTION_COUNT),
        ],
        order_by=[pb.TableOrder(index=3, descending=True), pb.TableOrder(index=1)],
        limit=7, sheet="Sales", header_row=4,
    )  # fmt: skip
    number = int(address.split("/")[3])
    assert gateway.fakes.corpus.table_queries == [pb.QueryTableRequest(document_id=number, version=2, query=query)]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"columns": [""]}, "columns.0"),
        ({"column": ["Region"]}, "column"),
        ({"filters": [{"column": "A", "op": "like", "values": ["x"]}]}, "filters.0.op"),
        ({"filters": [{"column": "A", "op": "eq", "values": [None]}]}, "filters.0.values.0"),
        ({"filters": [{"column": "A", "op": "eq", "values": [0.12345678901234567]}]}, "filters.0.values.0"),
        ({"aggregates": [{"function": "total"}]}, "aggregates.0.function"),
        ({"order_by": [{"index": 0}]}, "order_by.0.index"),
        ({"limit": 1001}, "limit"),
        ({"limit": "5"}, "limit"),
    ],
)
async def test_a_wrong_body_names_its_field(gateway: Gateway, address: str, body: dict[str, Any], field: str) -> None:
    response = await gateway.http.post(f"{address}:query", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"].startswith(field)
    assert gateway.fakes.corpus.table_queries == []


async def test_a_refusal_of_the_retriever_names_the_field_of_the_body(gateway: Gateway, address: str) -> None:
    gateway.fakes.corpus.table_answer = invalid_field("query.filters[2].values[0]", "must fit the column")
    response = await gateway.http.post(f"{address}:query", json={})
    assert response.status_code == 422
    assert response.json()["errors"] == [{"field": "filters.2.values.0", "message": "must fit the column"}]
    assert response.json()["detail"] == "filters.2.values.0: must fit the column"
    problem = "row 7 ('Total North') may be a total of others"
    gateway.fakes.corpus.table_answer = FailedPrecondition(problem, reason="TABLE_NOT_COMPUTED")
    response = await gateway.http.post(f"{address}:query", json={})
    assert (response.status_code, response.json()["reason"]) == (409, "TABLE_NOT_COMPUTED")
    assert response.json()["detail"] == problem
