"""The stream of OpenAI's Responses API: ends, errors, refusals. Recorded streams are in test_transcripts.py."""

import json

import pytest

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.responses_stream import ResponsesStream
from citewire_kit.errors import CitewireError

USAGE = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 5}, "output_tokens": 3}


def read(pieces: list[bytes]) -> tuple[str, ResponsesStream]:
    reader = ResponsesStream("test")
    texts = [text for piece in pieces for text in reader.feed(piece)]
    return "".join(texts + reader.finish()), reader


def event(kind: str, **fields: object) -> bytes:
    return f"event: {kind}\n".encode() + b"data: " + json.dumps({"type": kind, **fields}).encode() + b"\n\n"


def text(delta: str, kind: str = "output_text") -> bytes:
    return event(f"response.{kind}.delta", delta=delta)


def end(status: str = "completed", **fields: object) -> bytes:
    return event(f"response.{status}", response={"status": status, "usage": USAGE, **fields})


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (end(), FinishReason.STOP),
        (end("incomplete", incomplete_details={"reason": "max_output_tokens"}), FinishReason.LENGTH),
        (end("incomplete", incomplete_details={"reason": "content_filter"}), FinishReason.CONTENT_FILTER),
    ],
)
def test_an_end_has_its_reason_and_usage(ending: bytes, reason: FinishReason) -> None:
    shown, reader = read([text("a"), ending])
    assert (shown, reader.finish_reason, reader.usage) == ("a", reason, Usage(7, 5, 3))


def test_a_refusal_is_text_and_marked_as_a_refusal() -> None:
    shown, reader = read([text("I can't.", "refusal"), end()])
    assert (shown, reader.finish_reason) == ("I can't.", FinishReason.REFUSAL)


def test_reasoning_is_progress_and_no_text() -> None:
    reader = ResponsesStream("test")
    assert reader.feed(text("hm", "reasoning_summary_text")) == []
    assert reader.progress == 1
    assert reader.feed(event("response.in_progress", response={"status": "in_progress", "error": None})) == []
    assert reader.progress == 1


def test_a_stream_without_its_end_is_broken() -> None:
    with pytest.raises(CitewireError) as caught:
        read([text("a"), event("response.output_text.done", text="a")])
    assert caught.value.reason == "PROVIDER_STREAM_BROKEN"


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (end("failed", error={"code": "rate_limit_exceeded", "message": "secret"}), "PROVIDER_RATE_LIMITED"),
        (end("failed", error={"code": "server_error", "message": "secret"}), "PROVIDER_UNAVAILABLE"),
        (end("failed"), "PROVIDER_STREAM_BROKEN"),
        (event("error", code="rate_limit_exceeded", message="secret", param=None), "PROVIDER_RATE_LIMITED"),
        (b'data: {"error": {"message": "secret", "code": "invalid_api_key"}}\n\n', "PROVIDER_AUTH"),
    ],
)
def test_an_error_after_text_is_raised_after_it(failing: bytes, reason: str) -> None:
    reader = ResponsesStream("test")
    assert reader.feed(text("a") + failing) == ["a"]
    with pytest.raises(CitewireError) as caught:
        reader.check()
    assert caught.value.reason == reason
    assert "secret" not in str(caught.value)


def test_a_whole_response_is_read_too() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    items = [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}]
    body = {"status": "completed", "output": [*items, {"type": "message", "content": parts}], "usage": USAGE}
    reader = ResponsesStream("test")
    assert "".join(reader.whole(json.dumps(body).encode())) == "ab"
    assert reader.usage == Usage(7, 5, 3)
    with pytest.raises(CitewireError):
        ResponsesStream("test").whole(b'{"object": "list"}')
