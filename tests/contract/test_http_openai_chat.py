"""Chat completions through OpenAI's own client: each parameter, JSON, tools, pictures, storage."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import openai
import pytest
from citewire.generator.v1 import generator_pb2 as pb
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.embedding_create_params import EmbeddingCreateParams
from pydantic import BaseModel

from citewire_kit.errors import Violations
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

MESSAGES: list[Any] = [{"role": "user", "content": "How much did it grow?"}]
TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}
PICTURE = "data:image/png;base64,aGk="
REPLY = '{"growth": "Revenue grew by 12 %.", "year": 2025}'


class Growth(BaseModel):
    """The model of the requested JSON."""

    growth: str
    year: int


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1, url="https://example.org/report")]
        fakes.generator.script = _answers
        yield running


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none is asked for", max_retries=0) as made:
        yield made


async def _answers(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
    yield started((1, 0))
    yield delta("By 12 %", "[ref:1]", ".")
    yield completed(cited_numbers=[1])


async def _in_json(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
    yield started((1, 0))
    yield delta(REPLY)
    verified = pb.VerifiedCitation(
        sentence=pb.AnswerSpan(start=12, end=33),
        number=1,
        quote="Revenue grew by 12 %.",
        quote_end=21,
        verdict=pb.VERDICT_SUPPORTED,
        sentence_verdict=pb.VERDICT_SUPPORTED,
        pointer="/growth",
    )
    yield pb.GenerateResponse(verified_citation=verified)
    yield completed()


async def _refuses(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
    yield started((1, 0))
    yield completed(refusal="The passages don't say a year.")


async def _calls(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
    yield started((1, 0))
    for piece in (
        pb.ToolCallDelta(index=0, id="call_1", name="weather"),
        pb.ToolCallDelta(index=0, arguments='{"at": '),
        pb.ToolCallDelta(index=0, arguments='"Oslo"}'),
        pb.ToolCallDelta(index=1, id="call_2", name="weather", arguments="{}"),
    ):
        yield pb.GenerateResponse(tool_call=piece)
    yield completed(finish_reason=pb.FINISH_REASON_TOOL_CALLS)


# A value for each honoured parameter, with the field that it sets in the generator's request, or None.
HONOURED: Mapping[str, tuple[object, str | None]] = {
    "messages": (MESSAGES, "question"),
    "model": ("grounded", "policy"),
    "stream": (False, None),
    "stream_options": (None, None),
    "max_tokens": (9, "max_completion_tokens"),
    "max_completion_tokens": (9, "max_completion_tokens"),
    "temperature": (0.5, "temperature"),
    "top_p": (0.5, "sampling.top_p"),
    "stop": (["END"], "sampling.stop"),
    "seed": (7, "sampling.seed"),
    "frequency_penalty": (0.5, "sampling.frequency_penalty"),
    "presence_penalty": (-0.5, "sampling.presence_penalty"),
    "reasoning_effort": ("low", "sampling.reasoning_effort"),
    "verbosity": ("high", "sampling.verbosity"),
    "response_format": ({"type": "json_object"}, "format"),
    "tools": ([TOOL], "tools"),
    "store": (False, None),
    "n": (1, None),
    "modalities": (["text"], None),
    "service_tier": ("auto", None),
    "logprobs": (False, None),
    "top_logprobs": (0, None),
    "logit_bias": ({}, None),
    "metadata": ({"a": "b"}, None),
    "user": ("ana", None),
    "safety_identifier": ("h", None),
    "prompt_cache_key": ("k", "cache_key"),
    "prompt_cache_options": ({"mode": "explicit"}, None),
    "prompt_cache_retention": ("24h", None),
}
WITH_TOOLS: Mapping[str, tuple[object, str]] = {
    "tool_choice": ("required", "tools.mode"),
    "parallel_tool_calls": (False, "tools.parallel"),
}
REFUSED: Mapping[str, object] = {
    "n": 2,
    "audio": {"voice": "ash", "format": "wav"},
    "modalities": ["audio"],
    "prediction": {"type": "content", "content": "x"},
    "web_search_options": {},
    "moderation": {"model": "omni"},
    "service_tier": "flex",
    "logprobs": True,
    "top_logprobs": 2,
    "logit_bias": {"50256": -100},
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "temperature": 3,
    "top_p": 2,
    "stop": ["a"] * 5,
    "frequency_penalty": 3,
    "presence_penalty": -3,
    "reasoning_effort": "much",
    "verbosity": "loud",
    "seed": 1.5,
    "max_tokens": 0,
    "max_completion_tokens": 0,
    "response_format": {"type": "json_schema"},
    "tools": [{"type": "custom", "custom": {"name": "x"}}],
    "tool_choice": "required",
    "parallel_tool_calls": "no",
    "store": "no",
    "stream": "no",
    "stream_options": {"include_obfuscation": True},
    "model": 5,
    "messages": [],
}


def test_every_parameter_of_the_client_has_a_row_here_and_in_the_docs() -> None:
    ours = {*HONOURED, *WITH_TOOLS, *REFUSED}
    assert set(CompletionCreateParamsStreaming.__annotations__) == ours
    assert set(EmbeddingCreateParams.__annotations__) == {"input", "model", "dimensions", "encoding_format", "user"}
    docs = (Path(__file__).parents[2] / "docs/reference/openai.md").read_text()
    assert not [name for name in ours if f"`{name}`" not in docs]


@pytest.mark.client("openai", "Chat completions, [each supported parameter](reference/openai.md)")
async def test_parameters_are_honoured(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    for name, (value, field) in {**HONOURED, **WITH_TOOLS}.items():
        asked: dict[str, Any] = {"model": "grounded", "messages": MESSAGES, name: value}
        if name in WITH_TOOLS:
            asked["tools"] = [TOOL]
        await client.chat.completions.create(**asked)
        sent = gateway.fakes.generator.requests[-1]
        outer, _, inner = (field or "question").partition(".")
        assert sent.HasField(outer) if outer in ("format", "tools", "sampling") else getattr(sent, outer), name
        if inner:
            assert inner in [descriptor.name for descriptor, _ in getattr(sent, outer).ListFields()], name
        if field is None:
            assert not sent.HasField("sampling"), name


@pytest.mark.client("openai", "Chat completions, each unsupported parameter rejected by name")
async def test_other_values_are_refused_by_name(client: openai.AsyncOpenAI) -> None:
    for name, value in REFUSED.items():
        asked: dict[str, Any] = {"model": "grounded", "messages": MESSAGES, "extra_body": {name: value}}
        with pytest.raises((openai.UnprocessableEntityError, openai.BadRequestError)) as caught:
            await client.chat.completions.create(**asked)
        assert name in f"{caught.value.param} {caught.value.message}"
        assert caught.value.type == "invalid_request_error"


async def test_features_that_a_provider_lacks_are_refused_by_openais_name(
    gateway: Gateway, client: openai.AsyncOpenAI
) -> None:
    fields: list[str] = []

    async def refuses(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
        violations = Violations()
        violations.add(fields[-1], "can't be used with the provider extractive")
        violations.raise_if_any()
        yield started()

    gateway.fakes.generator.script = refuses
    for field, param in {
        "sampling.top_p": "top_p",
        "format.schema_json": "response_format.json_schema.schema",
        "tools.tools[0].parameters_json": "tools[0].function.parameters",
        "tools": "tools",
        "images": "messages",
    }.items():
        fields.append(field)
        for stream in (False, True):
            with pytest.raises(openai.UnprocessableEntityError, match="extractive") as caught:
                await client.chat.completions.create(model="grounded", messages=MESSAGES, stream=stream)
            assert caught.value.param == param


@pytest.mark.client("openai", "Structured output (`parse`), with citations")
async def test_json_is_parsed_with_its_citations_beside_it(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    gateway.fakes.generator.script = _in_json
    answer = await client.chat.completions.parse(model="grounded", messages=MESSAGES, response_format=Growth)
    message = answer.choices[0].message
    assert message.parsed == Growth(growth="Revenue grew by 12 %.", year=2025)
    assert message.annotations is not None
    (annotation,) = message.annotations
    cited = annotation.url_citation
    assert REPLY[cited.start_index : cited.end_index] == "Revenue grew by 12 %."
    ours = cast("dict[str, Any]", (annotation.model_extra or {})["citewire"])
    assert (ours["pointer"], ours["verdict"], ours["quote"]) == ("/growth", "supported", "Revenue grew by 12 %.")
    sent = gateway.fakes.generator.requests[-1].format
    assert (sent.name, sent.strict) == ("Growth", True)
    assert json.loads(sent.schema_json)["required"] == ["growth", "year"]


@pytest.mark.client("openai", "Structured output, streamed")
async def test_json_is_streamed_without_a_list_of_sources(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    gateway.fakes.generator.script = _in_json
    async with client.chat.completions.stream(model="grounded", messages=MESSAGES, response_format=Growth) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == REPLY
    assert final.choices[0].message.parsed == Growth(growth="Revenue grew by 12 %.", year=2025)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.client("openai", "Answers that don't fit the schema, as `message.refusal`")
async def test_an_answer_that_does_not_fit_the_schema_is_a_refusal(
    gateway: Gateway, client: openai.AsyncOpenAI, *, stream: bool
) -> None:
    gateway.fakes.generator.script = _refuses
    if stream:
        async with client.chat.completions.stream(model="grounded", messages=MESSAGES, response_format=Growth) as made:
            message = (await made.get_final_completion()).choices[0].message
    else:
        answer = await client.chat.completions.parse(model="grounded", messages=MESSAGES, response_format=Growth)
        message = answer.choices[0].message
    assert (message.refusal, message.parsed) == ("The passages don't say a year.", None)
    assert not message.content


async def test_the_model_writes_json_even_if_nothing_was_found(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    async def refuses(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
        yield started()
        yield completed(refusal="Nothing says it.")

    gateway.fakes.retriever.results = []
    gateway.fakes.generator.script = refuses
    answer = await client.chat.completions.parse(model="grounded", messages=MESSAGES, response_format=Growth)
    assert answer.choices[0].message.refusal == "Nothing says it."


@pytest.mark.client("openai", "Tool calls, streamed")
async def test_tool_calls_are_streamed_and_gathered(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    gateway.fakes.generator.script = _calls
    whole = await client.chat.completions.create(model="grounded", messages=MESSAGES, tools=[TOOL])
    async with client.chat.completions.stream(model="grounded", messages=MESSAGES, tools=[TOOL]) as stream:
        final = await stream.get_final_completion()
    for answer in (whole, final):
        choice = answer.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert not choice.message.content
        calls = cast("list[Any]", choice.message.tool_calls)
        assert [(call.id, call.function.name, json.loads(call.function.arguments)) for call in calls] == [
            ("call_1", "weather", {"at": "Oslo"}),
            ("call_2", "weather", {}),
        ]


@pytest.mark.client("openai", "Tool results, with passages and citations")
async def test_results_of_tools_go_to_the_model_with_the_passages(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    gateway.fakes.generator.script = _calls
    asked: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Before?"},
        {"role": "assistant", "content": None, "tool_calls": [_call("call_0")]},
        {"role": "tool", "tool_call_id": "call_0", "content": "sun"},
        {"role": "assistant", "content": "Sun."},
        *MESSAGES,
    ]
    answer = await client.chat.completions.create(model="grounded", messages=asked, tools=[TOOL])
    gateway.fakes.generator.script = _answers
    results: list[Any] = [
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "rain"}]},
        {"role": "tool", "tool_call_id": "call_2", "content": "sun"},
    ]
    again: list[Any] = [*asked, answer.choices[0].message, *results]
    final = await client.chat.completions.create(model="grounded", messages=again, tools=[TOOL])
    sent = gateway.fakes.generator.requests[-1]
    assert sent.question == "How much did it grow?"
    assert sent.policy.instructions == "Be brief."
    assert len(sent.passages) == 1
    assert [message.role for message in sent.history] == [
        pb.ROLE_USER,
        pb.ROLE_ASSISTANT,
        pb.ROLE_TOOL,
        pb.ROLE_ASSISTANT,
    ]
    called, first, second = sent.continuation
    assert [call.id for call in called.tool_calls] == ["call_1", "call_2"]
    assert [(message.tool_call_id, message.content) for message in (first, second)] == [
        ("call_1", "rain"),
        ("call_2", "sun"),
    ]
    assert final.choices[0].message.annotations


def _call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": "{}"}}


WRONG: Mapping[str, list[Any]] = {
    "the last message must be the user's": [*MESSAGES, {"role": "assistant", "content": "x"}],
    "there must be a message of role user": [{"role": "system", "content": "x"}],
    "tool_call_id is required": [*MESSAGES, {"role": "tool", "content": "x"}],
    "content is required": [{"role": "user", "content": None}],
    "POST /v1/documents": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}],
    "only in messages of role user": [
        {"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": PICTURE}}]},
        *MESSAGES,
    ],
}


async def test_messages_that_make_no_sense_are_named(client: openai.AsyncOpenAI) -> None:
    for why, messages in WRONG.items():
        with pytest.raises(openai.UnprocessableEntityError, match=why) as caught:
            await client.chat.completions.create(model="grounded", messages=messages)
        assert str(caught.value.param).startswith("messages")


@pytest.mark.client("openai", "Images in messages")
async def test_pictures_go_to_the_model(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    parts: Any = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
    ]
    messages: list[Any] = [{"role": "user", "content": parts}, {"role": "assistant", "content": "A cat."}]
    await client.chat.completions.create(model="grounded", messages=[*messages, {"role": "user", "content": parts}])
    sent = gateway.fakes.generator.requests[-1]
    assert [(image.url, image.detail) for image in sent.images] == [(PICTURE, "low")]
    assert [len(message.images) for message in sent.history] == [1, 0]


@pytest.mark.client("openai", "`store`: whether a conversation is stored")
async def test_store_decides_whether_a_conversation_is_stored(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    async def count_conversations() -> int:
        return len((await gateway.http.get("/v1/conversations")).json()["conversations"])

    await client.chat.completions.create(model="documents", messages=MESSAGES, store=False)
    assert await count_conversations() == 0
    await client.chat.completions.create(model="documents", messages=MESSAGES)
    assert await count_conversations() == 1
    conversation = (await gateway.http.get("/v1/conversations")).json()["conversations"][0]["id"]
    more = {"citewire": {"conversation_id": conversation}}
    with pytest.raises(openai.UnprocessableEntityError, match="store must not be false"):
        await client.chat.completions.create(model="documents", messages=MESSAGES, store=False, extra_body=more)


# "Hello world" and "größer" in tokens of cl100k_base.
HELLO, GREATER = [9906, 1917], [911, 3029, 53762]


@pytest.mark.client("openai", "Embeddings of arrays of tokens")
async def test_token_ids_are_embedded_as_their_texts(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    await client.embeddings.create(model="", input=[HELLO, GREATER])
    assert list(gateway.fakes.embedder.requests[-1].inputs) == ["Hello world", "größer"]
    await client.embeddings.create(model="text-embedding-3-small", input=HELLO, dimensions=4)
    sent = gateway.fakes.embedder.requests[-1]
    assert (list(sent.inputs), sent.dimensions, sent.model) == (["Hello world"], 4, "text-embedding-3-small")
    with pytest.raises(openai.UnprocessableEntityError, match="999999") as caught:
        await client.embeddings.create(model="", input=[HELLO, [999999]])
    assert caught.value.param == "input[1]"
    wrong: Any = [1.5]
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        await client.embeddings.create(model="", input=wrong)
    assert str(caught.value.param).startswith("input")


async def test_more_texts_than_an_embedder_takes_at_once(gateway: Gateway, client: openai.AsyncOpenAI) -> None:
    await client.embeddings.create(model="", input=[f"text {number}" for number in range(600)])
    assert [len(request.inputs) for request in gateway.fakes.embedder.requests[-3:]] == [256, 256, 88]
