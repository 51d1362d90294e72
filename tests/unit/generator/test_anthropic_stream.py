"""Anthropic's stream format: its ends, its counts, its errors. Recorded streams are in test_transcripts.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.anthropic_stream import AnthropicStream
from citewire_kit.errors import CitewireError

START = {"type": "message_start", "message": {"usage": {"input_tokens": 10, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + json.dumps(event).encode() + b"\n\n" for event in events
    )


def text(content: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": content}}


def end(reason: str, **usage: int | None) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def read(*events: dict[str, Any]) -> tuple[str, AnthropicStream]:
    reader = AnthropicStream("anthropic")
    texts = reader.feed(sse(*events))
    return "".join(texts + reader.finish()), reader


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("pause_turn", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.REFUSAL),
        ("a_reason_of_tomorrow", FinishReason.STOP),
    ],
)
def test_reasons(reason: str, finish: FinishReason) -> None:
    shown, reader = read(START, text("a"), end(reason, output_tokens=3), STOP)
    assert (shown, reader.finish_reason, reader.usage) == ("a", finish, Usage(10, 0, 3))


def test_a_stop_reason_without_message_stop_is_no_end() -> None:
    reader = AnthropicStream("anthropic")
    reader.feed(sse(START, text("a"), end("end_turn", output_tokens=3)))
    assert not reader.finished
    with pytest.raises(CitewireError, match="ended before"):
        reader.finish()


def test_cached_tokens_are_part_of_the_prompt_and_counted_separately() -> None:
    usage = {"input_tokens": 7, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 300, "output_tokens": 1}
    started = {"type": "message_start", "message": {"usage": usage}}
    _, reader = read(started, text("a"), end("end_turn", output_tokens=5, cache_read_input_tokens=None), STOP)
    assert reader.usage == Usage(2307, 2000, 5, cache_write_prompt_tokens=300)


def test_the_last_count_of_the_prompt_wins() -> None:
    assert read(START, end("end_turn", input_tokens=61, output_tokens=5), STOP)[1].usage == Usage(61, 0, 5)


def test_without_a_count_of_the_answer_there_is_no_usage() -> None:
    assert read(START, text("a"), end("end_turn"), STOP)[1].usage is None


def test_thinking_pings_and_unknown_events_are_no_text() -> None:
    thought = {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}}
    reader = AnthropicStream("anthropic")
    assert reader.feed(sse(START, {"type": "ping"}, {"type": "news", "text": "no"})) == []
    assert reader.progress == 0  # a ping keeps a connection alive, and is no progress of the model
    assert reader.feed(sse(thought)) == []
    assert reader.progress == 1
    begun = {"type": "content_block_start", "content_block": {"type": "text", "text": "a"}}
    assert reader.feed(sse(begun, text("b"))) == ["a", "b"]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("overloaded_error", "PROVIDER_UNAVAILABLE"),
        ("api_error", "PROVIDER_UNAVAILABLE"),
        ("rate_limit_error", "PROVIDER_RATE_LIMITED"),
        ("authentication_error", "PROVIDER_AUTH"),
        ("something_else", "PROVIDER_STREAM_BROKEN"),
    ],
)
def test_an_error_in_the_stream_has_the_reason_of_its_type(kind: str, reason: str) -> None:
    reader = AnthropicStream("anthropic")
    failed = {"type": "error", "error": {"type": kind, "message": "secret words"}}
    assert reader.feed(sse(START, text("a"), failed)) == ["a"]  # the text before it isn't lost
    with pytest.raises(CitewireError) as caught:
        reader.check()
    assert (caught.value.reason, "secret" in str(caught.value)) == (reason, False)


def test_a_message_in_one_piece() -> None:
    message = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
        ],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 4, "output_tokens": 2},
    }
    reader = AnthropicStream("anthropic")
    assert reader.whole(json.dumps(message).encode()) == ["a", "b"]
    assert (reader.finish_reason, reader.usage) == (FinishReason.LENGTH, Usage(4, 0, 2))
    with pytest.raises(CitewireError, match="isn't a completion"):
        AnthropicStream("anthropic").whole(b"{}")
