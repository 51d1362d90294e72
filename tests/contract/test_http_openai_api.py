"""OpenAI's API: streams, annotations, embeddings, lists of models, and reranking."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from citewire.common.v1.place_pb2 import Place
from citewire.generator.v1 import generator_pb2

from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

PATH = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "grounded", "messages": [{"role": "user", "content": "How much did it grow?"}]}
URL = "https://example.org/report"


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, url=URL, section="Results"), result(2, place=Place(page=3))]
        fakes.generator.script = _cites
        yield running


async def _cites(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0), (2, 1))
    yield delta("By 12 %", "[ref:1]", ".")
    yield completed(cited_numbers=[1])


async def test_the_whole_answer_carries_annotations(gateway: Gateway) -> None:
    body = (await gateway.http.post(PATH, json=BODY)).json()
    assert (body["object"], body["model"]) == ("chat.completion", "grounded")
    choice = body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("By 12 %[ref:1].", "stop")
    annotation = choice["message"]["annotations"][0]
    assert annotation["type"] == "url_citation"
    cited = annotation["url_citation"]
    assert (cited["start_index"], cited["end_index"], cited["title"]) == (7, 14, "report.pdf")
    assert cited["url"].startswith(f"{gateway.url}/v1/documents/")
    assert cited["url"].endswith("/content?version=1#page=3")
    cached = {"prompt_tokens_details": {"cached_tokens": 0}}
    assert body["usage"] == {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120} | cached


async def test_without_markers_the_whole_answer_is_annotated(gateway: Gateway) -> None:
    async def plain(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0), (2, 1))
        yield delta("By 12 %.")
        yield completed()

    gateway.fakes.generator.script = plain
    body = (await gateway.http.post(PATH, json={**BODY, "model": "documents"})).json()
    results = [entry["url_citation"] for entry in body["choices"][0]["message"]["annotations"]]
    assert [(element["start_index"], element["end_index"]) for element in results] == [(0, 8), (0, 8)]
    assert results[0]["url"] == URL


async def test_a_stream_shows_markers_a_list_of_sources_and_usage(gateway: Gateway) -> None:
    asked = {**BODY, "stream": True, "stream_options": {"include_usage": True}}
    response = await gateway.http.post(PATH, json=asked)
    assert response.text.endswith("data: [DONE]\n\n")
    chunks = [_json(line) for line in response.text.splitlines() if line.startswith("data: {")]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk["choices"])
    assert text.startswith("By 12 %[ref:1].\n\nSources:\n- [1] [report.pdf](")
    last, usage = chunks[-2:]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["choices"][0]["delta"]["annotations"][0]["url_citation"]["start_index"] == 7
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 120
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


async def test_usage_comes_only_when_it_is_asked_for(gateway: Gateway) -> None:
    response = await gateway.http.post(PATH, json={**BODY, "stream": True})
    assert "usage" not in response.text


async def test_system_messages_instruct_and_earlier_ones_are_history(gateway: Gateway) -> None:
    messages = [
        {"role": "system", "content": "Answer briefly."},
        {"role": "user", "content": [{"type": "text", "text": "Who "}, {"type": "text", "text": "grew?"}]},
        {"role": "assistant", "content": "We did."},
        {"role": "user", "content": "How much?"},
    ]
    more = {"document_ids": [7], "top_k": 3}
    await gateway.http.post(PATH, json={**BODY, "messages": messages, "max_tokens": 99, "citewire": more})
    asked = gateway.fakes.generator.requests[0]
    assert asked.question == "How much?"
    assert asked.policy.instructions == "Answer briefly."
    assert [entry.content for entry in asked.history] == ["Who grew?", "We did."]
    assert asked.max_completion_tokens == 99
    assert list(gateway.fakes.retriever.searches[0].scope.selection.document_ids) == [7]


async def test_a_chat_model_may_follow_the_profile(gateway: Gateway) -> None:
    await gateway.http.post(PATH, json={**BODY, "model": "grounded/openai/gpt-4.1"})
    assert gateway.fakes.generator.requests[0].model == "openai/gpt-4.1"


async def test_errors_are_problems_that_openai_clients_can_read(gateway: Gateway) -> None:
    response = await gateway.http.post(PATH, json={**BODY, "model": "gpt-99"})
    assert response.status_code == 404
    problem = response.json()
    assert problem["reason"] == "PROFILE_NOT_FOUND"
    assert problem["error"]["type"] == "invalid_request_error"
    assert problem["error"]["code"] == "profile_not_found"
    assert "grounded" in problem["error"]["message"]
    refused = (await gateway.http.post(PATH, json={**BODY, "tools": [{"type": "function"}]})).json()
    assert refused["error"]["param"] == "tools.0.function"


async def test_a_stream_that_breaks_ends_without_done(gateway: Gateway) -> None:
    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("By")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    text = (await gateway.http.post(PATH, json={**BODY, "stream": True})).text
    assert "[DONE]" not in text
    assert _json(text.splitlines()[-2])["error"] == {
        "message": "the model provider went away",
        "type": "server_error",
        "param": None,
        "code": "provider_unavailable",
    }


async def test_models_are_the_profiles(gateway: Gateway) -> None:
    listed = (await gateway.http.get("/v1/models")).json()
    assert [entry["id"] for entry in listed["data"]][:2] == ["documents", "sources"]
    assert (await gateway.http.get("/v1/models/grounded")).json()["object"] == "model"
    assert (await gateway.http.get("/v1/models/gpt-99")).status_code == 404


async def test_embeddings_as_numbers_and_as_bytes(gateway: Gateway) -> None:
    body = (await gateway.http.post("/v1/embeddings", json={"input": ["a", "b"], "model": ""})).json()
    assert [entry["embedding"] for entry in body["data"]] == [[0.5] * 4]  # the scripted embedder gives one row
    assert body["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
    encoded = (await gateway.http.post("/v1/embeddings", json={"input": "a", "encoding_format": "base64"})).json()
    assert encoded["data"][0]["embedding"] == "AAAAPwAAAD8AAAA/AAAAPw=="


@pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])
async def test_rerank_in_the_shape_of_cohere_and_jina(gateway: Gateway, path: str) -> None:
    asked = {"query": "q", "documents": ["a", {"text": "b"}, "c"], "top_n": 2, "return_documents": True}
    body = (await gateway.http.post(path, json=asked)).json()
    assert [(entry["index"], entry["document"]) for entry in body["results"]] == [
        (2, {"text": "c"}),
        (1, {"text": "b"}),
    ]
    assert body["results"][0]["relevance_score"] > body["results"][1]["relevance_score"]
    most = await gateway.http.post(path, json={**asked, "top_n": 1 << 40})
    assert len(most.json()["results"]) == 3


def _json(line: str) -> dict[str, Any]:
    return json.loads(line.removeprefix("data: "))
