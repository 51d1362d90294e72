"""Tools and JSON answers of `POST /v1/chat`, by our own client in Python."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_client import AsyncCitewire, InvalidRequestError, models
from citewire_kit.errors import Violations
from gateway_fake_servers import running_fakes
from gateway_fakes import completed, delta, result, started
from gateway_process import Gateway, running_gateway

if TYPE_CHECKING:
    from databases import Database

QUESTION = "How much did it grow?"
SCHEMA = {"type": "object", "properties": {"growth": {"type": "string"}}, "required": ["growth"]}
JSON: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "growth", "schema": SCHEMA, "strict": True}}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"at": "Oslo"}'},
}
REPLY = '{"growth": "Revenue grew by 12 %."}'


@pytest.fixture
async def gateway(database: Database) -> AsyncIterator[Gateway]:
    async with running_fakes() as fakes, running_gateway(database, fakes) as running:
        fakes.retriever.results = [result(1)]
        yield running


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[AsyncCitewire]:
    async with AsyncCitewire(gateway.url, retries=0) as made:
        yield made


async def _calls(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
    yield started((1, 0))
    for piece in (
        pb.ToolCallDelta(index=0, id="call_1", name="weather"),
        pb.ToolCallDelta(index=0, arguments='{"at": '),
        pb.ToolCallDelta(index=0, arguments='"Oslo"}'),
        pb.ToolCallDelta(index=1, id="call_2", name="weather"),
    ):
        yield pb.GenerateResponse(tool_call=piece)
    yield completed(finish_reason=pb.FINISH_REASON_TOOL_CALLS)


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
    yield completed(refusal="The passages don't say a year.", finish_reason=pb.FINISH_REASON_REFUSAL)


async def _events(client: AsyncCitewire, **arguments: Any) -> list[Any]:  # noqa: ANN401 # of any call
    async with client.stream_chat(**arguments) as stream:
        return [event async for event in stream]


@pytest.mark.client("citewire-client", "The caller's own tools: calls, whole and streamed, and their results")
async def test_tools_are_called_and_their_results_are_read(gateway: Gateway, client: AsyncCitewire) -> None:
    gateway.fakes.generator.script = _calls
    named: dict[str, Any] = {"type": "function", "function": {"name": "weather"}}
    asked: dict[str, Any] = {"tools": [TOOL], "tool_choice": named, "parallel_tool_calls": False, "profile": "grounded"}
    answer = await client.chat(question=QUESTION, **asked)
    assert answer.finish_reason == "tool_calls"
    assert answer.tool_calls is not None
    assert [(call.id, call.function.name, call.function.arguments) for call in answer.tool_calls] == [
        ("call_1", "weather", '{"at": "Oslo"}'),
        ("call_2", "weather", "{}"),
    ]
    use = gateway.fakes.generator.requests[-1].tools
    assert (use.tools[0].parameters_json, use.mode, use.name) == (
        '{"type": "object"}',
        pb.TOOL_MODE_REQUIRED,
        "weather",
    )
    assert use.HasField("parallel")
    assert not use.parallel

    events = await _events(client, question=QUESTION, **asked)
    pieces = [event.data for event in events if isinstance(event, models.ToolCallEvent)]
    assert [piece.index for piece in pieces] == [0, 0, 0, 1]
    assert (pieces[0].id, pieces[0].name, pieces[1].id) == ("call_1", "weather", None)
    assert "".join(piece.arguments for piece in pieces) == '{"at": "Oslo"}'
    assert events[-1].data.finish_reason == "tool_calls"

    talk: list[dict[str, Any]] = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
    ]
    await client.chat(messages=talk, **asked)
    request = gateway.fakes.generator.requests[-1]
    assert request.question == QUESTION
    assert [message.role for message in request.continuation] == [pb.ROLE_ASSISTANT, pb.ROLE_TOOL]
    assert request.continuation[0].tool_calls[0].arguments == '{"at": "Oslo"}'
    assert (request.continuation[1].tool_call_id, request.continuation[1].content) == ("call_1", "Rain.")


@pytest.mark.client("citewire-client", "Structured output, with a citation for each value")
async def test_json_is_cited_value_by_value(gateway: Gateway, client: AsyncCitewire) -> None:
    gateway.fakes.generator.script = _in_json
    answer = await client.chat(question=QUESTION, response_format=JSON, include=["citation"])
    assert answer.answer == REPLY
    assert answer.verified is not None
    assert [citation.pointer for citation in answer.verified] == ["/growth"]
    assert answer.refusal is None
    asked_format = gateway.fakes.generator.requests[-1].format
    assert (asked_format.name, asked_format.strict) == ("growth", True)

    gateway.fakes.generator.script = _refuses
    answer = await client.chat(question=QUESTION, response_format=JSON)
    assert answer.refusal == "The passages don't say a year."
    *_, last = await _events(client, question=QUESTION, response_format=JSON)
    assert (last.event, last.data.refusal) == ("done", "The passages don't say a year.")


async def test_wrong_fields_are_named_as_in_the_request(gateway: Gateway, client: AsyncCitewire) -> None:
    wrong: list[str] = []

    async def refuses(_: pb.GenerateRequest) -> AsyncGenerator[pb.GenerateResponse, None]:
        violations = Violations()
        violations.add(wrong[-1], "can't be used with the provider extractive")
        violations.raise_if_any()
        yield started()

    gateway.fakes.generator.script = refuses
    for field, name in {
        "format.schema_json": "response_format.json_schema.schema",
        "tools.tools[0].parameters_json": "tools[0].function.parameters",
        "tools.name": "tool_choice",
        "continuation[1].tool_call_id": "messages",
        "policy.instructions": "policy.instructions",
    }.items():
        wrong.append(field)
        with pytest.raises(InvalidRequestError, match="extractive") as caught:
            await client.chat(question=QUESTION, tools=[TOOL])
        assert [error.field for error in caught.value.errors] == [name]
        assert str(caught.value).startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("fields", "at", "why"),
    [
        ({"tool_choice": "required"}, "body", "tool_choice requires tools"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "tools.0.type", "must be function"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "json_schema is required"),
        ({"messages": [{"role": "tool", "content": "Rain."}]}, "messages.0", "tool_call_id is required"),
        ({"messages": [{"role": "user", "content": "Hi", "tool_calls": [CALL]}]}, "messages.0", "the assistant"),
        ({"messages": [{"role": "assistant", "content": "Hi"}]}, "messages", "must be a message of role user"),
    ],
)
async def test_wrong_combinations_are_named(gateway: Gateway, fields: dict[str, Any], at: str, why: str) -> None:
    asked: dict[str, Any] = {"question": QUESTION} if "messages" not in fields else {}
    response = await gateway.http.post("/v1/chat", json=asked | fields)
    assert response.status_code == 422
    errors = response.json()["errors"]
    assert any(error["field"].startswith(at) and why in error["message"] for error in errors), errors
