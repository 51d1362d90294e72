"""OpenAI's stream format: recorded streams in random pieces, cuts after each event, what servers get wrong."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_kit.errors import CitewireError, Unavailable

PROVIDERS = ("openai-chat", "openai-compatible", "azure-openai", "groq", "openrouter", "huggingface-router")
REASONS = {
    "stop": FinishReason.STOP,
    "tool_calls": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def transcripts(shared_data: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Each recorded stream as its events' bytes."""
    folder = shared_data / "provider-transcripts"
    for line in (folder / "index.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        name = entry["file"]
        if entry["provider"] not in PROVIDERS or entry["status"] != 200:
            continue
        raw = (folder / name).read_bytes()
        if name.endswith(".sse"):
            yield name, [event + b"\n\n" for event in raw.replace(b"\r\n", b"\n").strip().split(b"\n\n")]
        elif name.endswith(".chunks.jsonl"):
            yield name, [b"data: " + row + b"\n\n" for row in raw.splitlines() if row.strip()]


def recorded(events: list[bytes]) -> tuple[str, FinishReason, dict[str, Any]]:
    """What a recording says, read the plain way."""
    text, reason, refused = "", "", False
    usage: dict[str, Any] = {}
    for event in events:
        data = event.strip().removeprefix(b"data:").strip()
        if data == b"[DONE]":
            continue
        parsed: dict[str, Any] = json.loads(data)
        usage = parsed.get("usage") or parsed.get("x_groq", {}).get("usage") or usage
        for choice in parsed["choices"][:1]:
            delta = choice.get("delta", {})
            refused = refused or bool(delta.get("refusal"))
            text += (delta.get("content") or "") + (delta.get("refusal") or "")
            reason = choice.get("finish_reason") or reason
    return text, FinishReason.REFUSAL if refused else REASONS[reason], usage


def read(pieces: list[bytes]) -> tuple[str, OpenAiStream]:
    reader = OpenAiStream("test")
    texts = [text for piece in pieces for text in reader.feed(piece)]
    return "".join(texts + reader.finish()), reader


def rechunk(raw: bytes, chance: random.Random) -> list[bytes]:
    pieces: list[bytes] = []
    while raw:
        size = chance.choice((1, 2, 3, 7, 40, 500))
        pieces.append(raw[:size])
        raw = raw[size:]
    return pieces


def test_recorded_streams_in_random_pieces(shared_data: Path) -> None:
    chance = random.Random(1)
    count = 0
    for name, events in transcripts(shared_data):
        text, reason, usage = recorded(events)
        raw = b"".join(events)
        for body in (raw, raw.replace(b"\n\n", b"\r\n\r\n"), raw.replace(b"data: ", b"data:")):
            shown, reader = read(rechunk(body, chance))
            assert shown == text, name
            assert reader.finish_reason is reason, name
            if usage:
                assert reader.usage is not None, name
                assert reader.usage.prompt_tokens == usage["prompt_tokens"], name
                assert reader.usage.completion_tokens == usage["completion_tokens"], name
                details: dict[str, Any] = usage.get("prompt_tokens_details") or {}
                cached = details.get("cached_tokens") or 0
                assert reader.usage.cached_prompt_tokens == cached, name
            else:
                assert reader.usage is None, name
        count += 1
    assert count >= 20


def test_recorded_streams_split_at_every_byte(shared_data: Path) -> None:
    short = [(name, events) for name, events in transcripts(shared_data) if sum(map(len, events)) < 6_000]
    for name, events in short:
        text, _, _ = recorded(events)
        raw = b"".join(events)
        for offset in range(0, len(raw), 7):
            assert read([raw[:offset], raw[offset:]])[0] == text, (name, offset)
    assert len(short) >= 5


def test_recorded_streams_cut_after_each_event_are_errors(shared_data: Path) -> None:
    for name, events in transcripts(shared_data):
        last = next(
            index
            for index, event in enumerate(events)
            if b"data: [DONE]" not in event
            and json.loads(event[6:])["choices"]
            and json.loads(event[6:])["choices"][0].get("finish_reason")
        )
        for cut in range(0, last + 1, max(1, last // 25)):
            with pytest.raises(Unavailable) as caught:
                read(events[:cut])
            assert caught.value.reason == "PROVIDER_STREAM_BROKEN", (name, cut)
        assert read(events[: last + 1])[1].finished


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(content: object = None, reason: str | None = None, **fields: object) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": content, **fields}, "finish_reason": reason}])


def test_a_missing_done_is_no_error_and_done_alone_is_an_end() -> None:
    shown, reader = read([delta("a"), delta(reason="stop")])
    assert (shown, reader.done, reader.finish_reason) == ("a", False, FinishReason.STOP)
    shown, reader = read([delta("a"), b"data: [DONE]\n\n"])
    assert (shown, reader.done, reader.finish_reason) == ("a", True, FinishReason.STOP)


def test_a_finish_without_its_blank_line_counts_and_half_of_one_does_not() -> None:
    whole = delta("a", "stop")
    assert read([whole[:-2]])[0] == "a"
    with pytest.raises(Unavailable):
        read([whole[:-6]])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ({"message": "secret text", "type": "overloaded_error"}, "PROVIDER_UNAVAILABLE"),
        ({"message": "secret text", "code": 502}, "PROVIDER_UNAVAILABLE"),
        ({"message": "secret text", "code": "rate_limit_exceeded"}, "PROVIDER_RATE_LIMITED"),
        ({"message": "secret text", "code": "invalid_api_key"}, "PROVIDER_AUTH"),
        ({"message": "secret text: maximum context length is 10"}, "CONTEXT_TOO_LONG"),
        ({"message": "secret text"}, "PROVIDER_STREAM_BROKEN"),
        ("secret text", "PROVIDER_STREAM_BROKEN"),
    ],
)
def test_an_error_inside_the_stream(error: object, reason: str) -> None:
    reader = OpenAiStream("test")
    assert reader.feed(delta("a")) == ["a"]
    with pytest.raises(CitewireError) as caught:
        reader.feed(event(error=error))
    assert caught.value.reason == reason
    assert "secret" not in str(caught.value)


def test_text_before_an_error_is_not_lost() -> None:
    reader = OpenAiStream("test")
    assert reader.feed(delta("a") + event(error={"message": "x"}) + delta("b")) == ["a"]
    with pytest.raises(Unavailable):
        reader.check()
    with pytest.raises(Unavailable):
        reader.feed(delta("c"))


def test_a_finish_reason_error_is_an_error() -> None:
    with pytest.raises(CitewireError):
        read([delta("a"), delta(reason="error")])


@pytest.mark.parametrize("raw", [b"data: {\n\n", b"data: nonsense\n\n", b"data: \xff\xfe\n\n"])
def test_what_is_not_json_breaks_the_stream(raw: bytes) -> None:
    with pytest.raises(Unavailable) as caught:
        OpenAiStream("test").feed(raw)
    assert caught.value.reason == "PROVIDER_STREAM_BROKEN"


@pytest.mark.parametrize(
    "raw", [b"data: []\n\n", b"data: 7\n\n", b'data: {"choices": 7}\n\n', b'data: {"choices": [7]}\n\n']
)
def test_json_of_another_shape_is_skipped(raw: bytes) -> None:
    assert read([raw, delta("a", "stop")])[0] == "a"


def test_content_in_parts_and_other_choices() -> None:
    parts = [{"type": "thinking", "text": "no"}, {"type": "text", "text": "yes"}]
    other = event(choices=[{"index": 1, "delta": {"content": "other"}}])
    assert read([delta(parts), other, delta(reason="stop")])[0] == "yes"


def test_halves_of_a_character_are_joined_across_events() -> None:
    high, low = "\ud83d", "\ude42"
    assert read([delta(f"a{high}"), delta(f"{low}b"), delta(reason="stop")])[0] == "a🙂b"
    assert read([delta(high), delta("b"), delta(reason="stop")])[0] == "\ufffdb"
    assert read([delta(f"a{high}"), delta(reason="stop")])[0] == "a\ufffd"
    assert read([delta(f"{low}a", "stop")])[0] == "\ufffda"


def test_reasoning_is_progress_and_no_text() -> None:
    reader = OpenAiStream("test")
    assert reader.feed(delta(reasoning_content="hm")) == []
    assert reader.progress == 1
    assert reader.feed(b": keep-alive\n\n") == []
    assert reader.feed(delta("", role="assistant")) == []
    assert reader.progress == 1


def test_usage_may_come_with_any_event() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
    _, reader = read([delta("a", "stop"), event(choices=[], usage=usage), b"data: [DONE]\n\n"])
    assert reader.usage == Usage(7, 5, 3)
    _, reader = read([delta(reason="stop"), event(choices=[], usage={"prompt_tokens": None})])
    assert reader.usage == Usage()


def test_a_whole_completion_is_read_too() -> None:
    body = {"choices": [{"message": {"content": "all"}, "finish_reason": "length"}], "usage": {"prompt_tokens": 1}}
    reader = OpenAiStream("test")
    assert reader.whole(json.dumps(body).encode()) == ["all"]
    assert (reader.finish_reason, reader.usage) == (FinishReason.LENGTH, Usage(1))
    with pytest.raises(Unavailable):
        OpenAiStream("test").whole(b"{}")


def test_nothing_after_done_is_read() -> None:
    assert read([delta("a"), b"data: [DONE]\n\n", delta("b")])[0] == "a"
