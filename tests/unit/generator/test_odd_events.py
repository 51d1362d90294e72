"""Providers' events with values of unexpected types anywhere: read, or refused as the provider's fault."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, cast

import pytest
from citewire.generator.v1 import generator_pb2 as pb

from citewire_generator.providers.anthropic_stream import AnthropicStream
from citewire_generator.providers.base import Delta
from citewire_generator.providers.ollama_stream import OllamaStream
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_generator.providers.reading import AnswerReader
from citewire_generator.providers.responses_stream import ResponsesStream
from citewire_kit.errors import CitewireError

ODD: tuple[Any, ...] = (
    None, True, -1, 10**400, 1.5, "", "\ud800", "x" * 9, "9" * 5_000, [], [[]], {}, {"a": []}, [None], ["a"],
)  # fmt: skip
CALL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}
EVENTS: dict[type[AnswerReader], list[dict[str, Any]]] = {
    OpenAiStream: [
        {"choices": [{"index": 0, "delta": {"content": "a", "refusal": "no"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": "a"}], "tool_calls": [CALL]}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE, "x_groq": {"usage": USAGE}},
        {"error": {"message": "no", "code": "c", "type": "t"}},
    ],
    ResponsesStream: [
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.output_item.added", "output_index": 0,
         "item": {"type": "function_call", "call_id": "c", "name": "f", "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"},
        {"type": "response.incomplete", "response": {"status": "incomplete", "incomplete_details": {"reason": "x"},
         "usage": {"input_tokens": 3, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}}},
        {"type": "response.failed", "response": {"status": "failed", "error": {"message": "no", "code": "c"}}},
    ],
    AnthropicStream: [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": "f"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "error", "error": {"message": "no", "type": "t"}},
    ],
    OllamaStream: [
        {"message": {"content": "a", "thinking": "b", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}},
        {"response": "a", "done": True, "done_reason": "stop", "eval_count": 1, "prompt_eval_count": 2},
        {"error": "no"},
    ],
}  # fmt: skip


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401 # any value of JSON
    yield path
    if isinstance(value, dict):
        for name, member in cast("dict[str, Any]", value).items():
            yield from places(member, (*path, name))
    elif isinstance(value, list):
        for index, member in enumerate(cast("list[Any]", value)):
            yield from places(member, (*path, index))


def replace_at(value: object, path: tuple[str | int, ...], odd: object) -> Any:  # noqa: ANN401 # any value of JSON
    if not path:
        return odd
    changed: Any = copy.deepcopy(value)
    at = changed
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = odd
    return changed


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_any_value_anywhere_in_an_event(kind: type[AnswerReader]) -> None:
    frame = b"%s\n" if kind is OllamaStream else b"data: %s\n\n"
    read = 0
    for index, event in enumerate(EVENTS[kind]):
        for path in places(event):
            for odd in ODD:
                reader = kind("test")
                events = [*EVENTS[kind][:index], replace_at(event, path, odd)]
                with suppress(CitewireError):
                    for payload in events:
                        for text in reader.feed(frame % json.dumps(payload).encode()):
                            text.encode()
                    pieces = reader.take_tool_calls()
                    assert len(Delta((), pieces)) >= len(pieces)
                    read += 1
                with suppress(CitewireError):
                    kind("test").whole(json.dumps(events[-1]).encode())
    assert read > 50, "most odd values are in a place that doesn't matter"


def test_tool_calls_without_text_count_towards_the_limit() -> None:
    assert len(Delta((), (pb.ToolCallDelta(), pb.ToolCallDelta(index=0)))) == 2
    assert len(Delta(("ab",), (pb.ToolCallDelta(id="x" * 100, name="f", arguments="{}"),))) == 105
