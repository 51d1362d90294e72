"""AnswerFromTables over a real gRPC server, a real Postgres and confined processes."""

from __future__ import annotations

from typing import Any

import pytest
from citewire.retriever.v1 import corpus_pb2, table_pb2

pytest.importorskip("duckdb")

from citewire_kit.errors import CitewireError, Code
from corpus_calls import LIMITS
from retriever_process import Caller

SALES = b"Id,Date,Region,Revenue\n1,2026-01-02,North,10.50\n2,2026-02-03,South,20\n3,2026-02-04,North,30.25\n"


@pytest.fixture
def retriever_settings() -> dict[str, object]:
    return {**LIMITS, "confinement": "available"}


async def upload(me: Caller, name: str, data: bytes) -> int:
    return (await me.upload(corpus_pb2.UploadHeader(file_name=name), data)).document_id


async def ask(me: Caller, question: str, *document_ids: int, **fields: Any) -> table_pb2.AnswerFromTablesResponse:  # noqa: ANN401 # fields of the request
    request = table_pb2.AnswerFromTablesRequest(question=question, document_ids=document_ids, **fields)
    return await me.unary(me.running.corpus.AnswerFromTables, request)


async def test_a_question_is_answered_over_the_one_table_that_it_fits(me: Caller) -> None:
    sales = await upload(me, "Sales.csv", SALES)
    staff = await upload(me, "Staff.csv", b"Employee,Salary\nAda,10\nBob,20\n")
    response = await ask(me, "What is the total revenue in North?", staff, sales)
    computed = response.computed
    assert (computed.document_id, computed.version) == (sales, 1)
    assert computed.answer.rows[0].values[0].text == "40.75"
    assert computed.text.splitlines()[0] == "Sum of Revenue, where Region = North: 40.75."
    assert (computed.place.row, computed.place.end_row) == (2, 4)


async def test_a_question_is_not_answered_if_two_tables_fit_or_one_is_unreadable(me: Caller) -> None:
    question = "What is the total revenue in North?"
    first, second = await upload(me, "a.csv", SALES), await upload(me, "b.csv", SALES.replace(b"10.50", b"11"))
    assert (await ask(me, question, first)).HasField("computed")
    assert not (await ask(me, question, first, second)).HasField("computed")
    text = await upload(me, "notes.txt", b"Revenue in North was fine.")
    assert not (await ask(me, question, first, text)).HasField("computed")
    assert not (await ask(me, "What does the warranty cover?", first)).HasField("computed")


async def test_tables_in_scope_are_described_and_queried(me: Caller) -> None:
    sales = await upload(me, "Sales.csv", SALES)
    question = "How much revenue came from outside of North?"
    assert not (await ask(me, question, sales)).tables
    (reached,) = (await ask(me, question, sales, describe=True)).tables
    assert (reached.document_id, reached.file_name, reached.table.row_count) == (sales, "Sales.csv", 3)
    assert not (await ask(me, "Where is the revenue report?", sales, describe=True)).tables
    query = table_pb2.TableQuery(
        filters=[table_pb2.TableFilter(column="Region", op=table_pb2.TABLE_OPERATOR_NE, values=["North"])],
        aggregates=[table_pb2.TableAggregate(function=table_pb2.TABLE_FUNCTION_SUM, column="Revenue")],
    )
    computed = (await ask(me, question, sales, query=query)).computed
    assert (computed.document_id, computed.answer.rows[0].values[0].text) == (sales, "20")
    query.aggregates[0].column = "Profit"
    with pytest.raises(CitewireError, match="must be one of the table's columns") as error:
        await ask(me, question, sales, query=query)
    assert error.value.code is Code.INVALID_ARGUMENT


async def test_an_invalid_request_names_its_fields(me: Caller) -> None:
    for request, field in (
        (table_pb2.AnswerFromTablesRequest(document_ids=[1]), "question"),
        (table_pb2.AnswerFromTablesRequest(question="How many?"), "document_ids"),
        (table_pb2.AnswerFromTablesRequest(question="How many?", document_ids=range(1, 10)), "document_ids"),
        (table_pb2.AnswerFromTablesRequest(question="How many?", document_ids=[0]), "document_ids[0]"),
        (table_pb2.AnswerFromTablesRequest(question="How many?", document_ids=[1], time_zone="Moon"), "time_zone"),
    ):
        with pytest.raises(CitewireError, match=field.replace("[", r"\[")) as error:
            await me.unary(me.running.corpus.AnswerFromTables, request)
        assert error.value.code is Code.INVALID_ARGUMENT
    with pytest.raises(CitewireError) as error:
        await ask(me, "How many rows are there?", 2**40)
    assert error.value.code is Code.NOT_FOUND
