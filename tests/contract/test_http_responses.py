"""`/v1/responses` by OpenAI's own client, unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any, cast, get_type_hints

import openai
import pytest
from citewire.generator.v1 import generator_pb2
from openai.types.responses import ResponseOutputMessage, ResponseOutputText, response_create_params

from citewire_kit.errors import Unavailable
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, running_gateway
from people_calls import People
from waiting import wait_until

if TYPE_CHECKING:
    from openai.types.responses import Response

    from databases import Database

QUESTION = "How much did it grow?"
SENTENCE = "Revenue grew by 12 %."
SEARCH: Any = [{"type": "file_search", "vector_store_ids": ["reports"]}]


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, verbatim=True, char_start=40)]
        fakes.generator.script = verifies
        yield running


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none is asked for", max_retries=0) as made:
        yield made


async def verifies(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
    yield started((1, 0))
    yield delta("Revenue grew", " by 12 %.")
    verified = generator_pb2.VerifiedCitation(
        sentence=generator_pb2.AnswerSpan(start=0, end=len(SENTENCE)),
        number=1,
        quote=SENTENCE,
        quote_start=0,
        quote_end=len(SENTENCE),
        verdict=generator_pb2.VERDICT_SUPPORTED,
        sentence_verdict=generator_pb2.VERDICT_SUPPORTED,
    )
    yield generator_pb2.GenerateResponse(verified_citation=verified)
    yield delta(" Nobody", " knows why.")
    usage = generator_pb2.TokenUsage(prompt_tokens=100, cached_prompt_tokens=64, completion_tokens=20)
    yield completed(cited_numbers=[1], usage=usage)


def part_of(response: Response) -> ResponseOutputText:
    message = response.output[-1]
    assert isinstance(message, ResponseOutputMessage)
    assert isinstance(message.content[0], ResponseOutputText)
    return message.content[0]


def is_cited(response: Response) -> None:
    (annotation,) = part_of(response).annotations
    assert annotation.type == "file_citation"
    assert (annotation.file_id, annotation.filename, annotation.index) == ("7", "report.pdf", len(SENTENCE))
    extra = cast("dict[str, Any]", annotation.model_extra)["citewire"]
    assert (extra["quote"], extra["document_start"], extra["verdict"]) == (SENTENCE, 40, "supported")


@pytest.mark.client("openai", "Responses, whole, with citations and usage")
async def test_a_whole_response_has_text_citations_and_usage(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    response = await client.responses.create(
        model="grounded", input=QUESTION, instructions="Be brief.", max_output_tokens=90, metadata={"team": "a"}
    )
    assert response.output_text == f"{SENTENCE} Nobody knows why."
    assert (response.status, response.error, response.incomplete_details) == ("completed", None, None)
    is_cited(response)
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (100, 64)
    assert (response.instructions, response.metadata, response.max_output_tokens) == ("Be brief.", {"team": "a"}, 90)
    request = gateway.fakes.generator.requests[-1]
    assert (request.policy.instructions, request.max_completion_tokens) == ("Be brief.", 90)
    assert request.policy.marker_style == generator_pb2.MARKER_STYLE_REMOVE


@pytest.mark.client("openai", "Responses, streamed, with the documented events")
async def test_a_stream_has_the_documented_events_in_their_order(client: openai.AsyncOpenAI) -> None:
    stream = await client.responses.create(
        model="grounded", input=QUESTION, tools=SEARCH, include=["file_search_call.results"], stream=True
    )
    events = [event async for event in stream]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.file_search_call.in_progress",
        "response.file_search_call.searching",
        "response.file_search_call.completed",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.annotation.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [cast("Any", event).sequence_number for event in events] == list(range(len(events)))
    final = cast("Any", events[-1]).response
    is_cited(final)
    assert final.id == cast("Any", events[0]).response.id
    (passage,) = final.output[0].results
    assert (final.output[0].queries, passage.file_id, passage.text) == ([QUESTION], "7", SENTENCE)


@pytest.mark.client("openai", "Responses with its stream helper")
async def test_its_stream_helper_gathers_the_same(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="grounded", input=QUESTION) as stream:
        kinds = {event.type async for event in stream}
        final = await stream.get_final_response()
    assert "response.output_text.annotation.added" in kinds
    assert final.output_text == f"{SENTENCE} Nobody knows why."
    is_cited(final)


@pytest.mark.client("openai", "A broken stream of a response is an error")
async def test_a_broken_stream_fails_and_is_never_complete(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    async def breaks(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("Revenue")
        raise Unavailable("the model provider went away", reason="PROVIDER_UNAVAILABLE")

    gateway.fakes.generator.script = breaks
    stream = await client.responses.create(model="grounded", input=QUESTION, stream=True)
    *_, last = [event async for event in stream]
    assert last.type == "response.failed"
    assert last.response.status == "failed"
    assert last.response.error is not None
    assert last.response.error.message == "the model provider went away"
    with pytest.raises(openai.InternalServerError, match="went away"):
        await client.responses.create(model="grounded", input=QUESTION)


@pytest.mark.parametrize(
    ("reason", "told"),
    [("LENGTH", "max_output_tokens"), ("REFUSAL", "content_filter"), ("CONTENT_FILTER", "content_filter")],
)
async def test_an_answer_that_is_cut_is_incomplete(
    gateway: Gateway, client: openai.AsyncOpenAI, reason: str, told: str
) -> None:
    async def is_cut(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        yield delta("Revenue")
        yield completed(finish_reason=f"FINISH_REASON_{reason}")

    gateway.fakes.generator.script = is_cut
    stream = await client.responses.create(model="grounded", input=QUESTION, stream=True)
    *_, last = [event async for event in stream]
    assert last.type == "response.incomplete"
    again = await client.responses.retrieve(last.response.id)
    for response in (last.response, again):
        assert response.status == "incomplete"
        assert response.incomplete_details is not None
        assert response.incomplete_details.reason == told


@pytest.mark.client("openai", "Responses stored, read, continued by `previous_response_id`, deleted")
async def test_a_response_is_stored_read_continued_and_deleted(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="documents", input=QUESTION, metadata={"n": "1"}, tools=SEARCH)
    read = await client.responses.retrieve(first.id)
    assert (read.id, read.output_text, read.created_at) == (first.id, first.output_text, first.created_at)
    assert (read.metadata, read.status, read.usage) == ({"n": "1"}, "completed", first.usage)
    assert [item.type for item in read.output] == ["file_search_call", "message"]
    is_cited(read)
    items = await client.responses.input_items.list(first.id)
    assert [cast("Any", item).content[0].text for item in items.data] == [QUESTION]

    second = await client.responses.create(model="documents", input="And why?", previous_response_id=first.id)
    history = [message.content for message in gateway.fakes.generator.requests[-1].history]
    assert history == [QUESTION, first.output_text]
    assert second.previous_response_id == first.id
    assert second.conversation == first.conversation

    with pytest.raises(openai.UnprocessableEntityError, match="last response"):
        await client.responses.create(model="documents", input="Or?", previous_response_id=first.id)
    with pytest.raises(openai.ConflictError, match="later responses"):
        await client.responses.delete(first.id)
    with pytest.raises(openai.ConflictError, match="background"):
        await client.responses.cancel(second.id)
    await client.responses.delete(second.id)
    third = await client.responses.create(model="documents", input="Or?", previous_response_id=first.id)
    await client.responses.delete(third.id)
    await client.responses.delete(first.id)
    for gone in (first.id, second.id, "resp_1", "chatcmpl-1"):
        with pytest.raises(openai.NotFoundError, match="no response") as caught:
            await client.responses.retrieve(gone)
        assert (caught.value.code, caught.value.param) == ("run_not_found", "response_id")
    assert (await gateway.http.get("/v1/conversations")).json()["conversations"] == []


async def test_a_response_with_store_false_is_not_stored(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    first = await client.responses.create(model="documents", input=QUESTION)
    second = await client.responses.create(
        model="documents", input="And why?", previous_response_id=first.id, store=False
    )
    assert [message.content for message in gateway.fakes.generator.requests[-1].history] == [
        QUESTION,
        first.output_text,
    ]
    assert (first.model_extra or {})["store"] is True
    assert (second.model_extra or {})["store"] is False
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(second.id)
    listed = (await gateway.http.get("/v1/conversations")).json()["conversations"]
    assert first.conversation is not None
    assert [conversation["id"] for conversation in listed] == [first.conversation.id]
    again = await client.responses.create(model="documents", input="Or?", conversation=first.conversation.id)
    assert again.conversation == first.conversation


async def test_items_are_a_conversation_and_an_answer_can_be_sent_back_unchanged(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    first = await client.responses.create(model="documents", input=QUESTION, tools=SEARCH, store=False)
    items: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": QUESTION}]},
        *(item.model_dump() for item in first.output),
        {"role": "user", "content": "And why?"},
    ]
    await client.responses.create(model="documents", input=items)
    request = gateway.fakes.generator.requests[-1]
    assert [message.content for message in request.history] == [QUESTION, first.output_text]
    assert request.question == "And why?"
    assert request.policy.instructions == "Be brief."


@pytest.mark.client("openai", "`file_search` with vector stores and filters")
async def test_a_vector_store_is_a_collection_and_its_filters_are_ours(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    filters = {
        "type": "and",
        "filters": [
            {"type": "gte", "key": "year", "value": 2024},
            {"type": "nin", "key": "team", "value": ["a", "b"]},
        ],
    }
    tool: Any = SEARCH[0] | {
        "filters": filters,
        "max_num_results": 3,
        "ranking_options": {"ranker": "auto", "score_threshold": 0.25},
    }
    await client.responses.create(model="documents", input=QUESTION, tools=[tool])
    search = gateway.fakes.retriever.searches[-1]
    assert (search.scope.collection, search.top_k, search.min_score) == ("reports", 3, 0.25)
    year, team = search.scope.filter.all.filters
    assert (year.comparison.field, year.comparison.value.number_value) == ("metadata.year", 2024)
    assert getattr(team, "not").comparison.field == "metadata.team"

    gateway.fakes.corpus.collections |= {"reports": 1, "notes": 1}
    several: Any = [{"type": "file_search", "vector_store_ids": ["reports", "notes"]}]
    await client.responses.create(model="documents", input=QUESTION, tools=several)
    compared = gateway.fakes.retriever.searches[-1].scope.filter.comparison
    assert (compared.field, [value.string_value for value in compared.value.list_value.values]) == (
        "collection",
        ["reports", "notes"],
    )
    several[0]["vector_store_ids"][1] = "plans"
    with pytest.raises(openai.NotFoundError, match="plans") as caught:
        await client.responses.create(model="documents", input=QUESTION, tools=several)
    assert caught.value.param == "tools.0.vector_store_ids.1"


@pytest.mark.parametrize(
    ("filters", "at"),
    [
        ({"type": "like", "key": "a", "value": "b"}, "tools.0.filters.type"),
        ({"type": "eq", "value": "b"}, "tools.0.filters.key"),
        ({"type": "eq", "key": "a", "value": ["b"]}, "tools.0.filters.value"),
        ({"type": "in", "key": "a", "value": "b"}, "tools.0.filters.value"),
        ({"type": "eq", "key": "a", "value": 1, "more": 2}, "tools.0.filters"),
        ({"type": "or", "filters": []}, "tools.0.filters.filters"),
        ({"type": "or", "filters": [{"type": "eq", "key": "a"}]}, "tools.0.filters.filters.0.value"),
    ],
)
async def test_an_invalid_filter_is_refused_at_the_wrong_field(
    client: openai.AsyncOpenAI, filters: dict[str, Any], at: str
) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        await client.responses.create(model="documents", input=QUESTION, tools=[SEARCH[0] | {"filters": filters}])
    assert caught.value.param == at


HONOURED: dict[str, Any] = {
    "conversation": None,
    "include": ["file_search_call.results"],
    "input": QUESTION,
    "instructions": "Be brief.",
    "max_output_tokens": 100,
    "max_tool_calls": 1,
    "metadata": {"a": "b"},
    "model": "grounded",
    "parallel_tool_calls": False,
    "previous_response_id": None,
    "prompt_cache_key": "k",
    "store": False,
    "stream": False,
    "temperature": 0.5,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": SEARCH,
    "truncation": "auto",
}
UNREAD: dict[str, Any] = {
    "prompt_cache_options": {"mode": "explicit"},
    "prompt_cache_retention": "24h",
    "safety_identifier": "s",
    "user": "u",
}
REFUSED: dict[str, Any] = {
    "access_programs": {"cyber": "standard"},
    "background": True,
    "context_management": [{"type": "compaction"}],
    "image": {"context_compression": "auto"},
    "moderation": {"model": "m"},
    "prompt": {"id": "p"},
    "reasoning": {"effort": "high"},
    "service_tier": "flex",
    "stream_options": {"include_obfuscation": True},
    "top_logprobs": 3,
    "top_p": 0.5,
}


@pytest.mark.client("openai", "Responses, each parameter supported or rejected by name")
async def test_every_parameter_of_the_installed_client_is_honoured_or_refused_by_name(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    base, streaming = response_create_params.ResponseCreateParamsBase, response_create_params
    known = set(get_type_hints(base)) | set(get_type_hints(streaming.ResponseCreateParamsStreaming))
    assert known == HONOURED.keys() | UNREAD.keys() | REFUSED.keys()
    await client.responses.create(**{name: value for name, value in (HONOURED | UNREAD).items() if value is not None})
    assert gateway.fakes.generator.requests[-1].cache_key == "k"
    for name, value in REFUSED.items():
        with pytest.raises(openai.UnprocessableEntityError) as caught:
            await client.responses.create(model="grounded", input=QUESTION, **{name: value})
        assert caught.value.param is not None
        assert caught.value.param.partition(".")[0] == name
        assert caught.value.type == "invalid_request_error"


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tools": [{"type": "web_search"}]}, "tools.0.type"),
    ({"tools": [SEARCH[0], SEARCH[0]]}, "tools"),
    ({"tools": [{"type": "file_search", "vector_store_ids": []}]}, "tools.0.vector_store_ids"),
    ({"tool_choice": "none"}, "tool_choice"),
    ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ({"truncation": "disabled"}, "truncation"),
    ({"include": ["message.output_text.logprobs"]}, "include.0"),
    ({"metadata": {"a": "b" * 600}}, "metadata.a"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input.0.content.0"),
    ({"input": [{"type": "function_call_output", "call_id": "c", "output": "o"}]}, "input.0"),
    ({"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, "input"),
    ({"input": []}, "input"),
    ({"input": " "}, "input"),
    ({"conversation": "mine"}, "conversation"),
    ({"previous_response_id": "resp_00"}, "previous_response_id"),
    ({"tools": SEARCH, "extra_body": {"citewire": {"collection": "notes"}}}, "citewire.collection"),
    ({"top": 1}, "top"),
]


@pytest.mark.parametrize(("changes", "at"), WRONG)
async def test_unsupported_values_are_refused_at_their_field(
    client: openai.AsyncOpenAI, changes: dict[str, Any], at: str
) -> None:
    body = {"input": QUESTION} | {name: value for name, value in changes.items() if name != "extra_body"}
    extra = changes.get("extra_body", {})
    with pytest.raises(openai.APIStatusError) as caught:
        await client.post("/responses", body={"model": "grounded", **body, **extra}, cast_to=object)
    assert caught.value.status_code in (404, 422)
    assert caught.value.param is not None
    assert caught.value.param.startswith(at)


async def test_a_repeated_key_returns_the_same_answer_and_ids(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    headers = {"Idempotency-Key": "k1"}
    first = await client.responses.create(model="documents", input=QUESTION, extra_headers=headers)
    again = await client.responses.create(model="documents", input=QUESTION, extra_headers=headers)
    assert (again.id, again.created_at, again.output) == (first.id, first.created_at, first.output)
    assert len(gateway.fakes.generator.requests) == 1
    with pytest.raises(openai.ConflictError):
        await client.responses.create(model="documents", input="Another?", extra_headers=headers)


async def test_a_client_that_leaves_a_stream_stops_the_provider(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    async def endless(_: generator_pb2.GenerateRequest) -> AsyncGenerator[generator_pb2.GenerateResponse, None]:
        yield started((1, 0))
        while True:
            yield delta("word ")
            await asyncio.sleep(0.01)

    gateway.fakes.generator.script = endless
    stream = await client.responses.create(model="documents", input=QUESTION, stream=True)
    async for event in stream:
        if event.type == "response.output_text.delta":
            break
    await stream.close()
    async with asyncio.timeout(1):
        await gateway.fakes.generator.ended_event.wait()
    assert gateway.fakes.generator.ended == ["cancelled"]


async def test_nobody_else_reads_continues_or_deletes_a_response(database: Database) -> None:
    async with running_fakes() as fakes, running_gateway(database, fakes, auth="keys") as gateway:
        people = People(gateway, database)
        for org, user in (("acme", "ada"), ("acme", "bob"), ("other", "mallory")):  # ada is the owner
            await people.add(org, user)
        made = await people.call("bob", "POST", "/v1/responses", json={"model": "documents", "input": QUESTION})
        name = made.json()["id"]
        for user in ("ada", "mallory"):
            for method, path, body in (
                ("GET", f"/v1/responses/{name}", None),
                ("GET", f"/v1/responses/{name}/input_items", None),
                ("POST", f"/v1/responses/{name}/cancel", None),
                ("DELETE", f"/v1/responses/{name}", None),
                ("POST", "/v1/responses", {"model": "documents", "input": "And?", "previous_response_id": name}),
            ):
                response = await people.call(user, method, path, **({} if body is None else {"json": body}))
                assert response.status_code == 404, (method, path)
                assert response.json()["error"]["code"] == "run_not_found"
        fakes.retriever.known = set()  # the document is hidden from bob now

        async def is_withheld() -> bool:
            read = (await people.call("bob", "GET", f"/v1/responses/{name}")).json()
            return "withheld" in read["output"][-1]["content"][0]["text"]

        await wait_until(is_withheld)
