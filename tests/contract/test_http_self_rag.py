"""`/api/rag-chat/stream`: the body, the frames and their order are exactly those of the self-reflective API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from citewire.generator.v1 import generator_pb2
from citewire.retriever.v1 import retriever_pb2
from google.protobuf import struct_pb2

from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import delta, result, started
from gateway_process import Gateway, frames_of, rows, running_gateway

if TYPE_CHECKING:
    from databases import Database

PATH = "/api/rag-chat/stream"
QUESTION: dict[str, Any] = {"messages": [{"role": "user", "content": "What did I save about vectors?"}]}
REPOSITORY = {
    "owner_login": "ada",
    "owner_avatar_url": "https://example.org/ada.png",
    "stargazers_count": 1500,
    "language": "Python",
    "description": "Vectors in Postgres.",
}


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        metadata = struct_pb2.Struct()
        metadata.update(REPOSITORY)
        fakes.retriever.results = [
            result(
                1, 0.85, type="article", title="On vectors", url="https://example.org/vectors", text="Vectors point."
            ),
            result(2, 0.7, type="repository", title="ada/vectors", url="https://example.org/ada", metadata=metadata),
        ]
        yield running


async def test_the_frames_are_exactly_as_documented(gateway: Gateway) -> None:
    response = await gateway.http.post(PATH, json=QUESTION)
    assert response.text == (
        "event: decision\n"
        'data: {"needs_retrieval": true, "reason": "It asks about saved content."}\n\n'
        "event: retrieval\n"
        'data: {"total": 2, "sources": [{"id": "1", "index": 1, "content": "Vectors point.", "score": 0.85, '
        '"source_type": "article", "title": "On vectors", "url": "https://example.org/vectors", "owner_login": null, '
        '"owner_avatar_url": null, "stargazers_count": null, "language": null, "description": null}, '
        '{"id": "2", "index": 2, "content": "Revenue grew by 12 %.", "score": 0.7, "source_type": "repository", '
        '"title": "ada/vectors", "url": "https://example.org/ada", "owner_login": "ada", '
        '"owner_avatar_url": "https://example.org/ada.png", "stargazers_count": 1500, "language": "Python", '
        '"description": "Vectors in Postgres."}]}\n\n'
        'event: content\ndata: {"delta": "Revenue"}\n\n'
        'event: content\ndata: {"delta": " grew"}\n\n'
        'event: content\ndata: {"delta": " by \\"12\\" %."}\n\n'
        'event: assessment\ndata: {"supported": true, "utility": 0.9}\n\n'
        'event: done\ndata: {"message": "completed"}\n\n'
    )
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_the_answer_without_a_stream(gateway: Gateway) -> None:
    response = await gateway.http.post("/api/rag-chat", json=QUESTION)
    body = response.json()
    streamed = frames_of((await gateway.http.post(PATH, json=QUESTION)).text)
    assert list(body) == ["decision", "retrieval", "content", "assessment"]
    assert body["decision"] == streamed[0].data
    assert body["retrieval"] == streamed[1].data
    assert body["content"] == "".join(frame.data["delta"] for frame in streamed if frame.event == "content")
    assert body["assessment"] == streamed[-2].data
    gateway.fakes.generator.decision = generator_pb2.DecideResponse(needs_retrieval=False, reason="A greeting.")
    body = (await gateway.http.post("/api/rag-chat", json=QUESTION)).json()
    assert (body["decision"]["needs_retrieval"], body["retrieval"]) == (False, None)
    refused = await gateway.http.post("/api/rag-chat", json={"messages": []})
    assert refused.status_code == 422


async def test_a_model_judges_relevance_on_request(gateway: Gateway) -> None:
    generator, result_count = gateway.fakes.generator, len(gateway.fakes.retriever.results)
    assert result_count > 1
    irrelevant = range(result_count - 1)
    usage = generator_pb2.TokenUsage(prompt_tokens=500, completion_tokens=7)
    generator.relevance = generator_pb2.JudgeRelevanceResponse(irrelevant=irrelevant, judged=result_count, usage=usage)
    before = (await gateway.http.post("/api/rag-chat", json=QUESTION)).json()
    assert (before["retrieval"]["total"], generator.judged) == (result_count, [])
    for path in ("/api/rag-chat", PATH):
        response = await gateway.http.post(path, json={**QUESTION, "judge_relevance": True})
        assert response.status_code == 200, response.text
        assert [len(request.passages) for request in generator.judged] == [result_count]
        assert [passage.chunk_id for passage in generator.requests[-1].passages] == [
            gateway.fakes.retriever.results[-1].chunk.chunk_id
        ]
        generator.judged.clear()
    asked = {**QUESTION, "profile": "self-rag", "stream": False}
    plain = (await gateway.http.post("/v1/chat", json=asked)).json()["usage"]
    judged = (await gateway.http.post("/v1/chat", json={**asked, "options": {"judge_relevance": True}})).json()
    assert judged["usage"]["prompt_tokens"] - plain["prompt_tokens"] == 500
    assert (
        f"{result_count - 1} of them"
        in next(step for step in judged["steps"] if step["name"] == "relevance_judged")["text"]
    )
    refused = await gateway.http.post(PATH, json={**QUESTION, "judge_relevance": "yes"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "judge_relevance")


@pytest.mark.parametrize(
    ("scope", "reason"),
    [({"document_ids": [404]}, "DOCUMENT_NOT_FOUND"), ({"collection": "gone"}, "COLLECTION_NOT_FOUND")],
)
async def test_an_unknown_document_is_a_404_before_the_decision(
    gateway: Gateway, scope: dict[str, Any], reason: str
) -> None:
    for body in (
        {**QUESTION, **scope, "profile": "self-rag"},
        {**QUESTION, **scope, "profile": "self-rag", "options": {"speculate": True}},
        {**QUESTION, **scope, "profile": "grounded"},
        {**QUESTION, **scope, "profile": "library", "options": {"hyde": True}},
        {**QUESTION, **scope, "profile": "documents", "stream": False},
    ):
        response = await gateway.http.post("/v1/chat", json=body)
        assert (response.status_code, response.json()["reason"]) == (404, reason), body
    completion = {"model": "self-rag", **QUESTION, "stream": True, "citewire": scope}
    assert (await gateway.http.post("/v1/chat/completions", json=completion)).status_code == 404
    search = await gateway.http.post("/v1/search", json={"query": "x", "mode": "lexical", **scope})
    assert (search.status_code, search.json()["reason"]) == (404, reason)


async def test_an_unknown_collection_is_a_404_before_the_decision(gateway: Gateway) -> None:
    for path in (PATH, "/api/rag-chat"):
        response = await gateway.http.post(path, json={**QUESTION, "collection": "gone"})
        assert (response.status_code, response.json()["reason"]) == (404, "COLLECTION_NOT_FOUND")


async def test_an_answer_without_retrieval_needs_no_retriever(gateway: Gateway) -> None:
    gateway.fakes.generator.decision = generator_pb2.DecideResponse(needs_retrieval=False, reason="A greeting.")
    gateway.fakes.retriever.log.errors["plan"] = Unavailable("away", reason="SERVICE_UNAVAILABLE")
    response = await gateway.http.post(PATH, json={**QUESTION, "collection": "reports"})
    assert response.status_code == 200
    assert frames_of(response.text)[-1].event == "done"


async def test_the_users_own_articles_and_repositories_are_searched(gateway: Gateway) -> None:
    await gateway.http.post(PATH, json={**QUESTION, "collection": "Feed", "top_k": 3, "min_score": 0.5})
    search = gateway.fakes.retriever.searches[0]
    assert search.scope.level == retriever_pb2.SCOPE_LEVEL_USER
    assert list(search.scope.types) == ["article", "repository"]
    assert (search.scope.collection, search.top_k, search.min_score) == ("Feed", 3, 0.5)


async def test_the_defaults(gateway: Gateway) -> None:
    await gateway.http.post(PATH, json=QUESTION)
    search = gateway.fakes.retriever.searches[0]
    assert (search.top_k, search.min_score) == (10, 0.3)
    asked = gateway.fakes.generator.requests[0]
    assert asked.max_completion_tokens == 2048
    assert asked.policy.marker_style == generator_pb2.MARKER_STYLE_REF
    assert asked.policy.context_format == generator_pb2.CONTEXT_FORMAT_TYPED


async def test_without_retrieval_there_is_an_assessment_but_no_retrieval_frame(gateway: Gateway) -> None:
    gateway.fakes.generator.decision = generator_pb2.DecideResponse(needs_retrieval=False, reason="A greeting.")
    frames = frames_of((await gateway.http.post(PATH, json=QUESTION)).text)
    assert [frame.event for frame in frames] == ["decision", "content", "content", "content", "assessment", "done"]
    assert frames[0].data == {"needs_retrieval": False, "reason": "A greeting."}
    assert len(gateway.fakes.generator.requests[0].passages) == 0


async def test_nothing_found_is_an_empty_retrieval(gateway: Gateway) -> None:
    gateway.fakes.retriever.results = []
    frames = frames_of((await gateway.http.post(PATH, json=QUESTION)).text)
    assert frames[1].event == "retrieval"
    assert frames[1].data == {"total": 0, "sources": []}
    assert frames[-1].event == "done"


async def test_a_failed_assessment_is_reported(gateway: Gateway) -> None:
    away = Unavailable("away", reason="PROVIDER_UNAVAILABLE")
    gateway.fakes.generator.log.errors |= {"decide": away, "assess": away, "rewrite": away}
    frames = frames_of((await gateway.http.post(PATH, json=QUESTION)).text)
    assert frames[0].data["needs_retrieval"] is True
    assert frames[-2].data == {"supported": True, "utility": 0.7, "fallback": True}


async def test_a_fault_is_the_last_frame(gateway: Gateway) -> None:
    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("Rev")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    frames = frames_of((await gateway.http.post(PATH, json=QUESTION)).text)
    assert [frame.event for frame in frames] == ["decision", "retrieval", "content", "error"]
    assert frames[-1].data == {"message": "the model provider went away"}


async def test_the_whole_conversation_goes_to_the_model_and_only_the_rewritten_question_is_embedded(
    gateway: Gateway,
) -> None:
    messages = [
        {"role": "user", "content": "Who is Ada?"},
        {"role": "assistant", "content": "A mathematician."},
        {"role": "user", "content": "What did she write?"},
    ]
    await gateway.http.post(PATH, json={"messages": messages})
    assert [list(request.inputs) for request in gateway.fakes.embedder.requests] == [
        ["What did she write? (rewritten)"]
    ]
    asked = gateway.fakes.generator.requests[0]
    assert [(entry.role, entry.content) for entry in asked.history] == [
        (generator_pb2.ROLE_USER, "Who is Ada?"),
        (generator_pb2.ROLE_ASSISTANT, "A mathematician."),
    ]
    assert asked.question == "What did she write?"


async def test_no_conversation_is_stored(gateway: Gateway, database: Database) -> None:
    await gateway.http.post(PATH, json=QUESTION)
    assert rows(database, "SELECT count(*) FROM chat.conversations") == [(0,)]
    assert rows(database, "SELECT profile, dialect, state FROM chat.exchanges") == [("self-rag", "self_rag", "done")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"top_k": 0}, "top_k"),
        ({"top_k": 31}, "top_k"),
        ({"top_k": "5"}, "top_k"),
        ({"min_score": -0.1}, "min_score"),
        ({"min_score": 1.1}, "min_score"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "user", "content": "  "}]}, "messages.0.content"),
        ({"messages": [{"role": "user"}]}, "messages.0"),
    ],
)
async def test_values_out_of_range_are_a_422_that_names_the_field(
    gateway: Gateway, change: dict[str, Any], field: str
) -> None:
    response = await gateway.http.post(PATH, json={**QUESTION, **change})
    assert response.status_code == 422
    assert [entry["field"] for entry in response.json()["errors"]] == [field]
