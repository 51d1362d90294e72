"""Decoders and readers do linear work on any stream of a provider: counted, not timed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest

from citewire_generator.providers.anthropic_stream import AnthropicStream
from citewire_generator.providers.ollama_stream import OllamaStream
from citewire_generator.providers.openai_stream import OpenAiStream
from citewire_kit.errors import CitewireError
from citewire_remote.stream_decoders import LineDecoder, SseDecoder
from steps import count_steps

SHORT, LONG = 2_000, 8_000
MOST = 8
"""The largest growth in steps for four times the bytes; quadratic work takes sixteen times as many."""
LEAST = 1_000
"""The number of steps below which growth means nothing."""
PIECES = (3, 61, LONG)

DECODERS = {"sse": SseDecoder, "lines": LineDecoder}
READERS = {"openai": OpenAiStream, "anthropic": AnthropicStream, "ollama": OllamaStream}
BYTES = [
    b"a", b"\r", b"\n", b"\r\n", b":\n", b"data", b"data:", b"data: \n",
    b"data: a\n", b"data: a\n\n", b"\xef\xbb\xbf", b"{",
]  # fmt: skip


def _sse(event: object) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


EVENTS = {
    "openai": [
        _sse({"choices": [{"index": 0, "delta": {"content": content}}]}) for content in ("", "a", "\ud83d", "é" * 30)
    ],
    "anthropic": [
        _sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}})
        for text in ("", "a", "\ud83d")
    ]
    + [_sse({"type": "ping"}), _sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}})],
    "ollama": [
        json.dumps({"message": {"content": content}, "done": False}).encode() + b"\n" for content in ("", "a", "\ud83d")
    ],
}


def assert_linear(feed: Callable[[bytes], object], unit: bytes, size: int) -> None:
    short, long = (count_steps(lambda total=total: feed((unit * total)[:total])) for total in (SHORT, LONG))
    assert long <= MOST * max(short, LEAST), f"{short:,} steps for {SHORT:,} bytes, {long:,} for {LONG:,} in {size}s"


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize("name", DECODERS)
def test_decoding_is_linear(name: str, size: int) -> None:
    def feed(data: bytes) -> None:
        decoder = DECODERS[name]()
        for start in range(0, len(data), size):
            decoder.feed(data[start : start + size])
        decoder.finish()

    for unit in BYTES:
        assert_linear(feed, unit, size)


@pytest.mark.parametrize("size", PIECES)
@pytest.mark.parametrize("name", READERS)
def test_reading_events_is_linear(name: str, size: int) -> None:
    def feed(data: bytes) -> None:
        reader = READERS[name]("provider")
        for start in range(0, len(data), size):
            reader.feed(data[start : start + size])
        with contextlib.suppress(CitewireError):  # it breaks off
            reader.finish()

    for unit in EVENTS[name]:
        assert_linear(feed, unit, size)


def test_the_counter_detects_a_decoder_that_starts_again() -> None:
    def feed(data: bytes) -> None:
        for end in range(0, len(data), 40):
            SseDecoder().feed(data[:end])

    with pytest.raises(AssertionError, match="steps for"):
        assert_linear(feed, b"data: a\n\n", 40)
