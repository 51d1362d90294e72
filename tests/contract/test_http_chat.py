"""`POST /v1/chat` over real HTTP: frames, their order and their text are compared literally."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from citewire.common.v1 import common_pb2
from citewire.common.v1.place_pb2 import Place
from citewire.generator.v1 import generator_pb2

from citewire_kit.errors import FailedPrecondition, Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import NOT_FOUND, completed, delta, result, started
from gateway_process import Gateway, rows, running_gateway, text_of, until_rows

if TYPE_CHECKING:
    from databases import Database

QUESTION = {"question": "How much did revenue grow?"}
NO_MATCH = "I could not find content in the selected documents that closely matches your question."
USAGE = {"embedding_tokens": 9, "prompt_tokens": 100, "completion_tokens": 20}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        yield running


async def not_found(request: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0), (2, 1))
    yield delta(NOT_FOUND)
    yield completed(not_found=True)


async def test_the_frames_are_as_documented(gateway: Gateway) -> None:
    frames = await gateway.stream("/v1/chat", QUESTION)
    names = ["conversation", "citations", "token", "token", "token", "usage", "done"]
    assert [frame.event for frame in frames] == names
    assert [frame.id for frame in frames] == [str(number) for number in range(1, 8)]
    assert frames[0].raw == f'event: conversation\nid: 1\ndata: {{"conversation_id": "{_conversation(frames)}"}}'
    assert list(frames[1].data) == ["citations"]
    assert frames[2].raw == 'event: token\nid: 3\ndata: {"text": "Revenue"}'
    assert frames[4].raw == 'event: token\nid: 5\ndata: {"text": " by \\"12\\" %."}'
    assert frames[5].data == USAGE
    assert frames[6].raw == "event: done\nid: 7\ndata: {}"


async def test_the_headers_keep_a_stream_flowing(gateway: Gateway) -> None:
    response = await gateway.http.post("/v1/chat", json=QUESTION)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache, no-transform"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["x-request-id"]


async def test_a_citation_has_all_members_that_apply(gateway: Gateway) -> None:
    text = "word " * 100
    gateway.fakes.retriever.results = [
        result(11, 0.123456789, text=text, section="A > B", place=Place(page=3, row=7, start_line=9, end_line=12),
            url="https://example.org/x", version=2, tags=["b", "a"], entity_type="restaurant", category="Food",
            created_at=datetime(2026, 1, 15, 9, 31, tzinfo=UTC)),
        result(12, 0.1, file_name="", title="Notes"),
    ]  # fmt: skip
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert frames[1].data["citations"] == [
        {
            "index": 1,
            "chunk_id": 11,
            "document_id": 7,
            "version": 2,
            "title": "Annual report",
            "file_name": "report.pdf",
            "ref": "report.pdf § A > B",
            "snippet": text[:200],
            "score": 0.123457,
            "saved_at": "2026-01-15T09:31:00Z",
            "tags": ["b", "a"],
            "type": "file",
            "entity_type": "restaurant",
            "category": "Food",
            "url": "https://example.org/x",
            "section": "A > B",
            "page_number": 3,
            "row_number": 7,
            "start_line": 9,
            "end_line": 12,
        },
        {
            "index": 2,
            "chunk_id": 12,
            "document_id": 7,
            "version": 1,
            "title": "Notes",
            "file_name": "",
            "ref": "Notes",
            "snippet": "Revenue grew by 12 %.",
            "score": 0.1,
        },
    ]


async def test_citations_have_the_order_and_numbers_of_the_prompt(gateway: Gateway) -> None:
    async def packs_two(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 2), (2, 0))
        yield delta("x")
        yield completed()

    gateway.fakes.retriever.results = [result(1), result(2), result(3)]
    gateway.fakes.generator.script = packs_two
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert [(row["index"], row["chunk_id"]) for row in frames[1].data["citations"]] == [(1, 3), (2, 1)]


async def test_the_services_are_asked_as_the_profile_says(gateway: Gateway) -> None:
    await gateway.stream("/v1/chat", {**QUESTION, "document_ids": [7, 8], "collection": "reports", "min_score": 0.2})
    embedded, searched = gateway.fakes.embedder.requests[0], gateway.fakes.retriever.searches[0]
    assert list(embedded.inputs) == [QUESTION["question"]]
    assert searched.top_k == 5
    assert searched.min_score == 0.2
    assert list(searched.scope.selection.document_ids) == [7, 8]
    assert searched.scope.collection == "reports"
    assert searched.space == gateway.fakes.embedder.space
    asked = gateway.fakes.generator.requests[0]
    assert [passage.chunk_id for passage in asked.passages] == [1, 2]
    assert asked.policy.marker_style == generator_pb2.MARKER_STYLE_REMOVE
    assert asked.policy.grounding == generator_pb2.GROUNDING_STRICT
    assert asked.policy.answer_language == "English"
    assert asked.policy.not_found_sentence == NOT_FOUND
    assert asked.policy.suggest_on_not_found
    assert asked.policy.ask_back


async def test_all_documents_are_searched_if_none_is_selected(gateway: Gateway) -> None:
    await gateway.stream("/v1/chat", QUESTION)
    assert not gateway.fakes.retriever.searches[0].scope.HasField("selection")


async def test_a_history_is_not_sent_to_the_model(gateway: Gateway) -> None:
    messages = [
        {"role": "user", "content": "What is revenue?"},
        {"role": "assistant", "content": "Money."},
        {"role": "user", "content": "How much did it grow?"},
    ]
    await gateway.stream("/v1/chat", {"messages": messages})
    asked = gateway.fakes.generator.requests[0]
    assert asked.question == "How much did it grow?"
    assert len(asked.history) == 0
    assert list(gateway.fakes.embedder.requests[0].inputs) == ["How much did it grow?"]


async def test_a_chat_that_is_not_stored_leaves_no_conversation(gateway: Gateway, database: Database) -> None:
    body = {"question": "How much did it grow?", "stream": False}
    await gateway.http.post("/v1/chat", json=body)
    answer = (await gateway.http.post("/v1/chat", json=body | {"keep": False})).json()
    assert answer["answer"]
    assert "conversation_id" not in answer
    await until_rows(database, "SELECT count(*) FROM chat.exchanges WHERE ended_at IS NOT NULL", [(2,)])
    assert rows(database, "SELECT count(*) FROM chat.conversations") == [(1,)]


async def test_without_a_stream_the_answer_is_one_body(gateway: Gateway) -> None:
    response = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False})
    assert response.status_code == 200
    body = response.json()
    assert body["answer"] == 'Revenue grew by "12" %.'
    assert [entry["chunk_id"] for entry in body["citations"]] == [1, 2]
    assert body["usage"] == USAGE
    assert body["conversation_id"]
    assert (body["provider"], body["model"], body["finish_reason"]) == ("fake", "fake-1", "stop")
    assert body["not_found"] is False
    assert body["steps"] == []
    assert int(response.headers["content-length"]) == len(response.content)


async def test_not_found_adds_suggested_questions_and_their_tokens(gateway: Gateway) -> None:
    gateway.fakes.generator.script = not_found
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert text_of(frames) == (f"{NOT_FOUND}\n\nYou could ask instead:\n- What grew?\n- How much?\n- Since when?")
    assert frames[-2].data == {"embedding_tokens": 9, "prompt_tokens": 130, "completion_tokens": 26}
    asked = gateway.fakes.generator.suggest_requests[0]
    assert (asked.question, asked.count, asked.language) == (QUESTION["question"], 3, "English")
    assert [passage.chunk_id for passage in asked.passages] == [1, 2]


@pytest.mark.parametrize("given", [2, 3])
async def test_the_answers_own_suggestions_are_enough(gateway: Gateway, given: int) -> None:
    async def suggests(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta(NOT_FOUND, "\n\n", "\n".join(f"- Question {number}?" for number in range(given)))
        yield completed(not_found=True, suggested_questions=given)

    gateway.fakes.generator.script = suggests
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert gateway.fakes.generator.suggest_requests == []
    assert frames[-2].data == USAGE


async def test_a_list_of_one_suggestion_is_continued_without_repeating_it(gateway: Gateway) -> None:
    async def suggests(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta(f"{NOT_FOUND}\n\n- What grew?")
        yield completed(not_found=True, suggested_questions=1)

    gateway.fakes.generator.script = suggests
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert text_of(frames) == f"{NOT_FOUND}\n\n- What grew?\n- How much?\n- Since when?"


async def test_without_suggested_questions_the_answer_is_whole_and_says_so(gateway: Gateway) -> None:
    gateway.fakes.generator.script = not_found
    gateway.fakes.generator.log.errors["suggest_questions"] = Unavailable("away", reason="SERVICE_UNAVAILABLE")
    response = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False})
    assert response.json()["answer"] == NOT_FOUND
    [step] = response.json()["steps"]
    assert (step["name"], step["reason"]) == ("suggestions_failed", "SERVICE_UNAVAILABLE")
    assert response.json()["usage"] == USAGE


async def test_offers_instead_of_an_answer_are_in_the_profiles_language(gateway: Gateway) -> None:
    gateway.fakes.generator.script = not_found
    gateway.fakes.generator.suggestions_heading = "Stattdessen könnten Sie fragen:"
    options = {"answer_language": "Deutsch", "not_found_sentence": "Dazu steht hier nichts."}
    response = await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False, "options": options})
    assert "\n\nStattdessen könnten Sie fragen:\n- " in response.json()["answer"]
    [suggested] = gateway.fakes.generator.suggest_requests
    assert (suggested.language, suggested.minimum) == ("Deutsch", 2)
    asked = gateway.fakes.generator.requests[0].policy
    assert (asked.not_found_sentence, asked.answer_language) == ("Dazu steht hier nichts.", "Deutsch")


@pytest.mark.parametrize("why", ["nothing found", "below the floor", "nothing selected"])
async def test_no_match_calls_no_model(gateway: Gateway, why: str) -> None:
    body: dict[str, Any] = dict(QUESTION)
    embedding_tokens = 9
    if why == "nothing found":
        gateway.fakes.retriever.results = []
    elif why == "below the floor":
        gateway.fakes.retriever.results = [result(1, 0.0)]
    else:
        body["document_ids"] = []
        embedding_tokens = 0
    frames = await gateway.stream("/v1/chat", body)
    assert [frame.event for frame in frames] == ["conversation", "citations", "token", "usage", "done"]
    assert frames[1].data == {"citations": []}
    sentence, _, suggestions = text_of(frames).partition("\n\n")
    assert sentence == NO_MATCH
    assert "Rephrase" in suggestions
    assert "Check which documents are selected" in suggestions
    assert frames[3].data == {
        "embedding_tokens": embedding_tokens,
        "prompt_tokens": 0,
        "completion_tokens": 0,
    }
    assert gateway.fakes.generator.requests == []


@pytest.mark.parametrize("profile", ["documents", "sources", "library", "grounded"])
async def test_an_empty_library_costs_nothing_and_says_how_to_add_documents(gateway: Gateway, profile: str) -> None:
    gateway.fakes.retriever.results = []
    gateway.fakes.retriever.counts.Clear()
    body = (await gateway.http.post("/v1/chat", json={**QUESTION, "profile": profile, "stream": False})).json()
    sentence, _, suggestions = body["answer"].partition("\n\n")
    assert sentence == NO_MATCH
    assert "add documents first" in suggestions
    assert "`citewire ingest PATH`" in suggestions
    assert body["usage"]["embedding_tokens"] == 0
    assert gateway.fakes.embedder.requests == []
    assert gateway.fakes.generator.requests == []


async def test_a_library_that_was_emptied_counts_as_empty_at_once(gateway: Gateway) -> None:
    await gateway.stream("/v1/chat", QUESTION)
    assert len(gateway.fakes.embedder.requests) == 1
    document = (await gateway.http.post("/v1/documents", json={"type": "article", "title": "A", "content": "B"})).json()
    gateway.fakes.retriever.results = []
    gateway.fakes.retriever.counts.Clear()
    assert (await gateway.http.delete(f"/v1/documents/{document['id']}")).status_code == 204
    await gateway.stream("/v1/chat", QUESTION)
    assert len(gateway.fakes.embedder.requests) == 1


async def test_no_match_says_that_documents_are_still_processed(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = []
    gateway.fakes.retriever.counts.not_ready = 3
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert "3 of the selected documents that can't be searched" in text_of(frames)


async def test_the_question_is_embedded_in_the_space_that_is_searched(gateway: Gateway) -> None:
    live = common_pb2.EmbeddingSpace(model="other", revision="other-r", dimensions=8)
    gateway.fakes.retriever.space = live
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert [(request.model, request.dimensions) for request in gateway.fakes.embedder.requests] == [
        ("", 0),
        ("other", 8),
    ]
    searched = gateway.fakes.retriever.searches[0]
    assert searched.space == live
    assert len(searched.vector) == 32
    assert frames[-2].data["embedding_tokens"] == 18


async def test_a_space_that_changes_between_plan_and_search_is_embedded_once_more(gateway: Gateway) -> None:
    metadata = {"model": "newer", "revision": "newer-r", "dimensions": "6"}
    gateway.fakes.retriever.search_errors = [FailedPrecondition("moved", reason="SPACE_MISMATCH", metadata=metadata)]
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert [request.space.model for request in gateway.fakes.retriever.searches] == ["test-model", "newer"]
    assert frames[-1].event == "done"
    assert frames[-2].data["embedding_tokens"] == 18


async def test_a_space_that_the_embedder_no_longer_has_is_an_error(gateway: Gateway) -> None:
    # The embedder has the model with weights of another revision, so its vectors wouldn't be comparable.
    gateway.fakes.retriever.space = common_pb2.EmbeddingSpace(model="other", revision="older", dimensions=8)
    response = await gateway.http.post("/v1/chat", json=QUESTION)
    assert response.status_code == 503
    assert "other" in response.json()["detail"]


async def test_a_question_beyond_the_embedding_window_is_reported_on_request(gateway: Gateway) -> None:
    gateway.fakes.embedder.truncated = True
    plain = await gateway.stream("/v1/chat", QUESTION)
    assert "step" not in [frame.event for frame in plain]
    frames = await gateway.stream("/v1/chat", {**QUESTION, "include": ["step"]})
    assert [frame.event for frame in frames[:3]] == ["conversation", "step", "citations"]
    assert frames[1].data["name"] == "question_truncated"
    assert gateway.fakes.embedder.requests[0].overflow == 2


async def test_an_answer_cut_at_its_limit_says_so_in_its_steps(gateway: Gateway) -> None:
    async def cut(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield generator_pb2.GenerateResponse(notice=generator_pb2.Notice(name="context_trimmed", text="Trimmed."))
        yield delta("x")
        yield completed(finish_reason=generator_pb2.FINISH_REASON_LENGTH)

    gateway.fakes.generator.script = cut
    body = (await gateway.http.post("/v1/chat", json={**QUESTION, "stream": False})).json()
    assert body["finish_reason"] == "length"
    assert [step["name"] for step in body["steps"]] == ["context_trimmed", "finish"]


async def test_an_exchange_is_opened_and_closed_with_its_costs(gateway: Gateway, database: Database) -> None:
    await gateway.stream("/v1/chat", QUESTION, headers={"X-Request-Id": "my-request"})
    columns = "state, reason, profile, dialect, request_id, provider, model, embedding_model, embedding_tokens, "
    exchanges = rows(database, f"SELECT {columns} prompt_tokens, completion_tokens FROM chat.exchanges")  # noqa: S608 # names of our own tables, no input
    expected = ("done", None, "documents", "native", "my-request", "fake", "fake-1", "test-model", 9, 100, 20)
    assert exchanges == [expected]
    assert rows(database, "SELECT first_token_ms IS NOT NULL, ended_at IS NOT NULL FROM chat.exchanges") == [
        (True, True)
    ]


async def test_text_that_json_must_escape_arrives_as_it_was(gateway: Gateway) -> None:
    text = 'line\nbreak \r\n "quoted" \\ back\u2028sep \u0007 – ü 🙂 </script>\n\nevent: done\n\n'

    async def writes(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta(*text)
        yield completed()

    gateway.fakes.generator.script = writes
    frames = await gateway.stream("/v1/chat", QUESTION)
    assert text_of(frames) == text


async def test_a_model_is_passed_on(gateway: Gateway) -> None:
    await gateway.stream("/v1/chat", {**QUESTION, "model": "fake/large"})
    assert gateway.fakes.generator.requests[0].model == "fake/large"


async def test_a_filter_is_passed_on(gateway: Gateway) -> None:
    condition = {
        "all": [
            {"field": "tags", "op": "contains", "value": "2025"},
            {"not": {"field": "metadata.year", "op": "lt", "value": 2020}},
            {"any": [{"field": "type", "op": "in", "value": ["file", "article"]}]},
        ]
    }
    await gateway.stream("/v1/chat", {**QUESTION, "filter": condition})
    sent = gateway.fakes.retriever.searches[0].scope.filter
    assert [entry.WhichOneof("condition") for entry in sent.all.filters] == ["comparison", "not", "any"]
    assert sent.all.filters[0].comparison.value.string_value == "2025"
    assert json.loads(json.dumps(condition)) == condition


def _conversation(frames: list[Any]) -> str:
    return frames[0].data["conversation_id"]
