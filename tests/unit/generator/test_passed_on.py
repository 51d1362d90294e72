"""Tools, pictures and sampling on their way to each kind of provider, and tool calls on their way back."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.converters import generate_from_proto
from citewire_generator.providers.base import ChatProvider
from citewire_generator.providers.extractive import Extractive
from citewire_generator.registry import Registry
from citewire_generator.service import Generator
from citewire_kit.errors import InvalidArgument
from generator_calls import make_passage
from raw_upstream import Exchange
from remote_chats import chat_with

PASSAGE = make_passage(1, 1, "Revenue grew by 12 %.")
WEATHER = pb.Tool(name="weather", description="Now.", parameters_json='{"type": "object", "properties": {}}')
CALLS = [pb.ToolCall(id="c1", name="weather", arguments='{"at": "Oslo"}'), pb.ToolCall(id="c2", name="weather")]
CONTINUATION = [
    pb.Message(role=pb.ROLE_ASSISTANT, tool_calls=CALLS),
    pb.Message(role=pb.ROLE_TOOL, tool_call_id="c1", content="rain"),
    pb.Message(role=pb.ROLE_TOOL, tool_call_id="c2", content="sun"),
]
PICTURE = "data:image/png;base64,aGk="
SSE = Callable[[Exchange], Awaitable[None]]


def streaming(*events: object) -> SSE:
    async def behave(exchange: Exchange) -> None:
        await exchange.head()
        lines = "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)
        await exchange.send(lines.encode())

    return behave


def openai_chunk(finish: str | None = None, **delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def openai_call(index: int, arguments: str, **names: str) -> Mapping[str, object]:
    function = {"arguments": arguments} | ({"name": names["name"]} if names else {})
    return {"index": index, "function": function} | ({"id": names["id"], "type": "function"} if names else {})


OPENAI = streaming(
    openai_chunk(content="Let me see."),
    openai_chunk(tool_calls=[openai_call(0, "", id="a", name="weather")]),
    openai_chunk(tool_calls=[openai_call(0, '{"at": ')]),
    openai_chunk(tool_calls=[openai_call(0, '"Oslo"}'), openai_call(1, "{}", id="b", name="weather")]),
    openai_chunk("tool_calls"),
    "[DONE]",
)
OLLAMA = streaming(
    openai_chunk(content="Let me see."),
    openai_chunk(
        tool_calls=[
            {"id": "a", "function": {"name": "weather", "arguments": '{"at": "Oslo"}'}},
            {"id": "b", "function": {"name": "weather", "arguments": "{}"}},
        ]
    ),
    openai_chunk("stop"),
    "[DONE]",
)
ANTHROPIC = streaming(
    {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Let me see."}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "a", "name": "weather"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"at": '}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"Oslo"}'}},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "b", "name": "weather"}},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
)

RESPONSES = streaming(
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Let me see."},
    {
        "type": "response.output_item.added",
        "output_index": 1,
        "item": {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "weather", "arguments": ""},
    },
    {"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "fc_1", "delta": '{"at": '},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "fc_1", "delta": '"Oslo"}'},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "weather", "arguments": ""},
    },
    {"type": "response.completed", "response": {"status": "completed", "usage": {"input_tokens": 5}}},
)


async def ask(provider: ChatProvider, **fields: Any) -> list[Any]:  # noqa: ANN401 # fields of the message
    request = pb.GenerateRequest(question="What now?", passages=[PASSAGE], **fields)
    history, route = generate_from_proto(request)
    return [event async for event in Generator(Registry([provider])).generate(request, history, route)]


@pytest.mark.parametrize(
    ("kind", "behave"),
    [("openai", OPENAI), ("ollama", OLLAMA), ("anthropic", ANTHROPIC), ("openai-responses", RESPONSES)],
)
async def test_tool_calls_come_back_in_pieces(kind: str, behave: SSE) -> None:
    async with chat_with(kind, behave) as (provider, _):
        events = await ask(provider, tools=pb.ToolUse(tools=[WEATHER]))
        unasked = await ask(provider)
    pieces = [event for event in events if isinstance(event, pb.ToolCallDelta)]
    calls = [
        (
            next(piece.id for piece in pieces if piece.index == index),
            next(piece.name for piece in pieces if piece.index == index),
            json.loads("".join(piece.arguments for piece in pieces if piece.index == index) or "{}"),
        )
        for index in (0, 1)
    ]
    assert calls == [("a", "weather", {"at": "Oslo"}), ("b", "weather", {})]
    assert (events[-1].finish_reason, events[-1].not_found) == (pb.FINISH_REASON_TOOL_CALLS, False)
    assert not [event for event in unasked if isinstance(event, pb.ToolCallDelta)]
    assert unasked[-1].finish_reason == pb.FINISH_REASON_STOP


async def test_the_request_to_an_openai_server() -> None:
    use = pb.ToolUse(tools=[WEATHER], mode=pb.TOOL_MODE_REQUIRED, name="weather", parallel=False)
    sampling = pb.Sampling(top_p=0.5, stop=["END"], seed=7, presence_penalty=0.1, reasoning_effort="low")
    async with chat_with("openai", OPENAI) as (provider, upstream):
        await ask(
            provider,
            tools=use,
            sampling=sampling,
            continuation=CONTINUATION,
            images=[pb.Image(url=PICTURE, detail="low")],
            format=pb.AnswerFormat(name="n", schema_json='{"type": "object"}'),
        )
    body: Any = upstream.requests[0].body
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    function = {"name": "weather", "description": "Now.", "parameters": parameters}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert body["parallel_tool_calls"] is False
    assert {name: body[name] for name in ("top_p", "stop", "seed", "presence_penalty", "reasoning_effort")} == {
        "top_p": 0.5,
        "stop": ["END"],
        "seed": 7,
        "presence_penalty": 0.1,
        "reasoning_effort": "low",
    }
    schema = {"name": "n", "schema": {"type": "object"}, "strict": False}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}
    rules, question, called, first, second = body["messages"]
    assert "one JSON object and nothing else" in rules["content"]
    assert "You may call the tools" in rules["content"]
    assert question["content"][1] == {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}
    assert called["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"at": "Oslo"}'}
    assert called["content"] is None
    assert [first, second] == [
        {"role": "tool", "content": "rain", "tool_call_id": "c1"},
        {"role": "tool", "content": "sun", "tool_call_id": "c2"},
    ]


async def test_the_request_to_anthropic() -> None:
    use = pb.ToolUse(tools=[WEATHER], mode=pb.TOOL_MODE_REQUIRED, parallel=False)
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    async with chat_with("anthropic", ANTHROPIC) as (provider, upstream):
        await ask(
            provider,
            tools=use,
            sampling=pb.Sampling(stop=["END"], reasoning_effort="high"),
            continuation=CONTINUATION,
            images=[pb.Image(url=PICTURE), pb.Image(url="https://example.org/a.png")],
            format=pb.AnswerFormat(schema_json=json.dumps(schema)),
        )
    body: Any = upstream.requests[0].body
    assert body["tools"] == [
        {"name": "weather", "description": "Now.", "input_schema": {"type": "object", "properties": {}}}
    ]
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert body["stop_sequences"] == ["END"]
    assert body["output_config"]["effort"] == "high"
    sent = body["output_config"]["format"]["schema"]
    assert sent["additionalProperties"] is False
    assert "minimum" not in sent["properties"]["n"]  # the API refuses it there, so the prompt has it
    assert '"minimum": 3' in body["system"][0]["text"]
    question, called, results = body["messages"]
    assert [block["type"] for block in question["content"]] == ["image", "image", "text"]
    assert question["content"][0]["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert [block["input"] for block in called["content"]] == [{"at": "Oslo"}, {}]
    assert (results["role"], [block["tool_use_id"] for block in results["content"]]) == ("user", ["c1", "c2"])


async def test_the_request_to_the_responses_api() -> None:
    use = pb.ToolUse(tools=[WEATHER], mode=pb.TOOL_MODE_REQUIRED, name="weather", parallel=False)
    async with chat_with("openai-responses", RESPONSES) as (provider, upstream):
        await ask(
            provider,
            tools=use,
            sampling=pb.Sampling(top_p=0.5, reasoning_effort="low", verbosity="high"),
            continuation=CONTINUATION,
            images=[pb.Image(url=PICTURE)],
            format=pb.AnswerFormat(name="n", schema_json='{"type": "object"}'),
        )
    body: Any = upstream.requests[0].body
    (tool,) = body["tools"]
    assert (tool["type"], tool["name"], tool["strict"]) == ("function", "weather", False)
    assert body["tool_choice"] == {"type": "function", "name": "weather"}
    assert (body["parallel_tool_calls"], body["top_p"], body["reasoning"]) == (False, 0.5, {"effort": "low"})
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": False}
    assert body["text"] == {"format": schema, "verbosity": "high"}
    question, first, second, rain, sun = body["input"]
    assert [part["type"] for part in question["content"]] == ["input_text", "input_image"]
    assert [first["call_id"], second["arguments"]] == ["c1", "{}"]
    assert rain == {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    assert sun["output"] == "sun"


REFUSED: Sequence[tuple[dict[str, Any], str]] = [
    ({"tools": pb.ToolUse(tools=[WEATHER])}, "tools"),
    ({"continuation": CONTINUATION}, "tools"),
    ({"images": [pb.Image(url=PICTURE)]}, "images"),
    ({"sampling": pb.Sampling(top_p=0.5)}, "sampling.top_p"),
    ({"sampling": pb.Sampling(reasoning_effort="low")}, "sampling.reasoning_effort"),
]


@pytest.mark.parametrize(("fields", "name"), REFUSED)
async def test_a_provider_refuses_unsupported_features_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await ask(Extractive(), **fields)
    (violation,) = caught.value.violations
    assert violation.field == name
    assert "the provider extractive, which" in violation.message


async def test_quotations_end_at_stop_texts_and_have_the_same_seed() -> None:
    events = await ask(Extractive(), sampling=pb.Sampling(stop=["12"], seed=1))
    assert not any("12" in text for event in events if isinstance(event, pb.TextDelta) for text in event.texts)


WRONG: Sequence[tuple[dict[str, Any], str]] = [
    ({"tools": pb.ToolUse()}, "tools.tools"),
    ({"tools": pb.ToolUse(tools=[WEATHER, WEATHER])}, "tools.tools[1].name"),
    ({"tools": pb.ToolUse(tools=[pb.Tool(name="a", parameters_json="[]")])}, "tools.tools[0].parameters_json"),
    ({"tools": pb.ToolUse(tools=[WEATHER], name="other", mode=pb.TOOL_MODE_REQUIRED)}, "tools.name"),
    ({"continuation": CONTINUATION[:1]}, "continuation"),
    ({"continuation": CONTINUATION[1:]}, "continuation[0].tool_call_id"),
    ({"continuation": [pb.Message(role=pb.ROLE_USER, content="x")]}, "continuation[0].role"),
    ({"images": [pb.Image(url="file:///etc/passwd")]}, "images[0].url"),
    ({"images": [pb.Image(url=PICTURE)] * 21}, "images"),
    ({"sampling": pb.Sampling(top_p=1.5)}, "sampling.top_p"),
    ({"sampling": pb.Sampling(stop=["a"] * 5)}, "sampling.stop"),
    ({"sampling": pb.Sampling(verbosity="loud")}, "sampling.verbosity"),
    ({"history": [pb.Message(role=pb.ROLE_TOOL, content="x")]}, "history[0].tool_call_id"),
]


@pytest.mark.parametrize(("fields", "name"), WRONG)
def test_wrong_fields_are_named(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        generate_from_proto(pb.GenerateRequest(question="What now?", **fields))
    assert name in [violation.field for violation in caught.value.violations]
