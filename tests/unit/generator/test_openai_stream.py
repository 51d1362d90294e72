"""OpenAI's stream format: fields that servers omit, add or get wrong. Recorded streams are in test_transcripts.py."""

import json

import pytest

from citewire_generator.model import FinishReason, Usage
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_kit.errors import CitewireError, Unavailable


def read(pieces: list[bytes]) -> tuple[str, OpenAiStream]:
    reader = OpenAiStream("test")
    texts = [text for piece in pieces for text in reader.feed(piece)]
    return "".join(texts + reader.finish()), reader


def event(**fields: object) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(content: object = None, reason: str | None = None, **fields: object) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": content, **fields}, "finish_reason": reason}])


def test_a_missing_done_is_no_error_and_a_single_done_is_an_end() -> None:
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
def test_invalid_json_breaks_the_stream(raw: bytes) -> None:
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
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
    }
    _, reader = read([delta("a", "stop"), event(choices=[], usage=usage), b"data: [DONE]\n\n"])
    assert reader.usage == Usage(7, 4, 3, cache_write_prompt_tokens=2)
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
