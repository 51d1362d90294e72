"""A chat whose question is answered by a computation over a table that was found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2, table_pb2

from citewire_dialects.events import Citations, Step, VerifiedCitation
from citewire_dialects.schemas import chat as schemas
from citewire_gateway.profiles.builtin import DOCUMENTS
from citewire_kit.errors import InvalidArgument, Unavailable
from gateway_fakes import completed, delta, result, started
from pipeline_harness import PipelineHarness

TEXT = "Sum of Amount, where Region = North: 40.75.\nComputed from 2 of rows 2–57 of sheet Q1 of Sales.xlsx."


def row(chunk_id: int, document_id: int = 7) -> retriever_pb2.SearchResult:
    place = Place(row=chunk_id, sheet="Q1", cell_range=f"A{chunk_id}:D{chunk_id}")
    return result(chunk_id, document_id=document_id, file_name="Sales.xlsx", section="Q1", place=place)


def computed_answer(document_id: int = 7) -> table_pb2.ComputedAnswer:
    return table_pb2.ComputedAnswer(
        document_id=document_id,
        version=1,
        answer=table_pb2.TableAnswer(sheet="Q1", understood="sum of Amount, where Region = North"),
        text=TEXT,
        place=Place(row=2, end_row=57, sheet="Q1", cell_range="A2:D57"),
    )


def verified_citation() -> generator_pb2.GenerateResponse:
    return generator_pb2.GenerateResponse(
        verified_citation=generator_pb2.VerifiedCitation(
            number=1,
            sentence=generator_pb2.AnswerSpan(start=0, end=20),
            quote=TEXT.partition("\n")[0],
            quote_end=43,
            support=1.0,
            verdict=generator_pb2.VERDICT_SUPPORTED,
        )
    )


class TableHarness(PipelineHarness):
    """A library with rows of a table, over which the answer is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.retriever.results = [row(2), row(3)]
        self.retriever.computed = computed_answer()
        self.messages = [started((1, 0), (2, 1)), delta("It is 40.75."), verified_citation(), completed()]


async def test_the_answer_is_the_first_passage_and_a_step_describes_the_query() -> None:
    asked = TableHarness()
    events = await asked.events()
    request = asked.generator.requests[-1]
    assert [passage.computed for passage in request.passages] == [True, False, False]
    assert request.passages[0].text == TEXT
    assert request.passages[0].place_label == "Q1!A2:D57"
    step = next(event for event in events if isinstance(event, Step))
    assert step.name == "table_computed"
    assert step.text == "Computed from Sales.xlsx, sheet Q1: sum of Amount, where Region = North."
    assert [list(question.document_ids) for question in asked.retriever.table_questions] == [[7]]


async def test_the_citation_opens_at_the_rows_and_has_no_quote() -> None:
    events = await TableHarness().events()
    first, second = next(event for event in events if isinstance(event, Citations)).citations
    assert first.url.endswith("#sheet=Q1&range=A2:D57")
    assert schemas.Citation.read(first).model_dump()["computed"] is True
    assert "computed" not in schemas.Citation.read(second).model_dump()
    citation = next(event for event in events if isinstance(event, VerifiedCitation))
    assert (citation.verified.quote, citation.verified.quote_end) == ("", 0)
    assert citation.verdict == "supported"
    assert (citation.place.cell_range, citation.document_start) == ("A2:D57", None)


async def test_without_rows_among_the_results_no_table_is_asked() -> None:
    asked = TableHarness()
    asked.retriever.results = [result(1, verbatim=True)]
    await asked.events()
    assert asked.retriever.table_questions == []


async def test_rows_in_text_files_are_recognised_by_number_or_by_changed_text() -> None:
    asked = TableHarness()
    place = Place(sheet="Table 1", row=3)
    asked.retriever.results = [
        result(1, document_id=5, verbatim=True),
        result(2, document_id=7, verbatim=True, place=place),
        result(3, document_id=8, verbatim=False, place=Place(start_line=9, end_line=9)),
    ]
    await asked.events()
    assert [list(question.document_ids) for question in asked.retriever.table_questions] == [[7, 8]]
    labels = [passage.place_label for passage in asked.generator.requests[-1].passages]
    assert "Table 1, row 3" in labels


async def test_no_table_is_asked_if_there_are_too_many() -> None:
    asked = TableHarness()
    asked.retriever.results = [row(number, number) for number in range(2, 11)]
    await asked.events(top_k=20)
    assert asked.retriever.table_questions == []


@pytest.mark.parametrize("failure", [None, Unavailable("away", reason="SERVICE_UNAVAILABLE")])
async def test_without_a_computed_answer_the_chat_goes_on_normally(failure: Unavailable | None) -> None:
    asked = TableHarness()
    asked.retriever.computed = failure
    asked.messages = [started((1, 0)), delta("It is 40.75."), completed()]
    events = await asked.events()
    assert not any(isinstance(event, Step) for event in events)
    assert [passage.computed for passage in asked.generator.requests[-1].passages] == [False, False]


class ModelQueryHarness(TableHarness):
    """A library where no rule reads the question as a query of its table, but a model does."""

    def __init__(self) -> None:
        super().__init__()
        table = table_pb2.Table(sheet="Q1", header_row=1, columns=[table_pb2.TableColumn(name="Amount")])
        self.retriever.tables = [table_pb2.TableInReach(document_id=7, file_name="Sales.xlsx", table=table)]
        query = table_pb2.TableQuery(
            aggregates=[table_pb2.TableAggregate(function=table_pb2.TABLE_FUNCTION_SUM, column="Amount")]
        )
        usage = generator_pb2.TokenUsage(prompt_tokens=40, completion_tokens=9)
        self.query = query
        self.generator.filled = generator_pb2.FillTableQueryResponse(table=1, query=query, usage=usage)

    async def events_filled(self) -> list[object]:
        return list(await self.events(replace(DOCUMENTS, fill_table_query=True)))


async def test_a_model_reads_a_query_that_the_rules_cannot_and_the_step_says_so() -> None:
    asked = ModelQueryHarness()
    events = await asked.events_filled()
    first, second = asked.retriever.table_questions
    assert (first.describe, first.HasField("query")) == (True, False)
    assert (second.query, list(second.document_ids)) == (asked.query, [7])
    assert [fill.tables[0].file_name for fill in asked.generator.fills] == ["Sales.xlsx"]
    step = next(event for event in events if isinstance(event, Step))
    assert step.text.endswith("where Region = North. The query is the model's reading of the question.")
    assert asked.generator.requests[-1].passages[0].computed
    assert asked.records.closings[0].usage.prompt_tokens == 140


@pytest.mark.parametrize("failure", ["none", "away", "wrong"])
async def test_without_a_fitting_query_the_chat_goes_on_normally(failure: str) -> None:
    asked = ModelQueryHarness()
    if failure == "none":
        asked.generator.filled = generator_pb2.FillTableQueryResponse(no_model=True)
    elif failure == "away":
        asked.generator.filled = Unavailable("away", reason="PROVIDER_UNAVAILABLE")
    else:
        asked.retriever.computed = InvalidArgument("query.columns[0]: is no column", reason="INVALID_FIELD")
    asked.messages = [started((1, 0)), delta("It is 40.75."), completed()]
    events = await asked.events_filled()
    assert not any(isinstance(event, Step) for event in events)
    assert [passage.computed for passage in asked.generator.requests[-1].passages] == [False, False]


async def test_no_model_is_asked_unless_the_profile_says_so() -> None:
    asked = ModelQueryHarness()
    await asked.events()
    assert asked.generator.fills == []
    assert [question.describe for question in asked.retriever.table_questions] == [False]
