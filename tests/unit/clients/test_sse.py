"""Server-sent events: the same events however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_client import sse
from citewire_client.errors import InvalidResponseError
from citewire_client.sse import SseEvent, SseParser

STREAM = (
    ": heartbeat\r\n"
    'event: token\nid: 7\ndata: {"text": "Größe – 東京 🚢"}\n\n'
    "data: first\r\ndata: second\r\n\r\n"
    ": another comment\n"
    "event: usage\rdata:no space\r\r"
    "event: nothing\n\n"
    "retry: 100\nunknown: x\ndata\ndata: after an empty line\n\n"
).encode()
EVENTS = [
    SseEvent("token", '{"text": "Größe – 東京 🚢"}', "7"),
    SseEvent("message", "first\nsecond", "7"),
    SseEvent("usage", "no space", "7"),
    SseEvent("message", "\nafter an empty line", "7"),
]


def parse(chunks: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_whole_stream() -> None:
    assert parse([STREAM]) == EVENTS


@pytest.mark.parametrize("at", range(1, len(STREAM)))
def test_cut_once_anywhere(at: int) -> None:
    assert parse([STREAM[:at], STREAM[at:]]) == EVENTS


def test_byte_by_byte() -> None:
    assert parse([bytes([byte]) for byte in STREAM]) == EVENTS


@given(st.lists(st.integers(1, len(STREAM) - 1), unique=True))
def test_cut_many_times(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert parse([STREAM[a:b] for a, b in pairwise(edges)]) == EVENTS


def test_byte_order_mark_is_no_part_of_the_first_field() -> None:
    assert parse([b"\xef", b"\xbb\xbfdata: x\n\n"]) == [SseEvent("message", "x")]


def test_unfinished_event_is_dropped() -> None:
    assert parse([b"data: whole\n\nevent: token\ndata: half\n"]) == [SseEvent("message", "whole")]


def test_invalid_utf8_is_replaced_and_the_stream_goes_on() -> None:
    assert parse([b"data: \xff\n\n", b"data: y\n\n"]) == [SseEvent("message", "\ufffd"), SseEvent("message", "y")]


def test_only_the_formats_line_ends_split_lines() -> None:
    assert parse(["data: a\u2028b\x0bc\x85d\n\n".encode()]) == [SseEvent("message", "a\u2028b\x0bc\x85d")]


@pytest.mark.parametrize("piece", [b"data: aaaaaaaaa", b"data: aaaaaaaa\n"])
def test_an_event_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch, piece: bytes) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_CHARACTERS", 1000)
    assert len(parse([b"data: x\n\n", b": comment\n\n"] * 200)) == 200
    with pytest.raises(InvalidResponseError, match="more than 1,000 characters"):
        parse([piece] * 100)


@given(st.text(), st.text(alphabet="abc\n\r: \u00e9"))
def test_never_raises(first: str, second: str) -> None:
    parser = SseParser()
    for chunk in (first.encode("utf-8", "surrogatepass"), second.encode()):
        for event in parser.feed(chunk):
            assert isinstance(event, SseEvent)
