"""Server-sent events from bytes that come in any pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_kit.errors import Unavailable
from citewire_remote.stream_decoders import MAX_LINE, SseDecoder


def decode(pieces: list[bytes]) -> list[bytes]:
    decoder = SseDecoder()
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.finish()


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b": comment\n\ndata: a\n: another\n\n", [b"a"]),
        (b"event: x\nid: 7\nretry: 3\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n", [b"a"]),
        (b"data: a", [b"a"]),
        (b"\n\n\n", []),
        (b"", []),
        ("data: é語🙂\n\n".encode(), ["é語🙂".encode()]),
    ],
)
def test_split_at_every_byte(raw: bytes, events: list[bytes]) -> None:
    assert decode([raw]) == events
    for offset in range(len(raw) + 1):
        assert decode([raw[:offset], raw[offset:]]) == events
    assert decode([raw[i : i + 1] for i in range(len(raw))]) == events


EVENTS = st.lists(st.binary(max_size=12).filter(lambda data: b"\n" not in data and b"\r" not in data), max_size=8)


@given(EVENTS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.lists(st.integers(1, 7), min_size=1, max_size=20))
def test_any_pieces_give_the_same_events(events: list[bytes], end: bytes, sizes: list[int]) -> None:
    raw = b"".join(b"data: " + event + end + end for event in events)
    pieces: list[bytes] = []
    turn = 0
    while raw:
        size = sizes[turn % len(sizes)]
        pieces.append(raw[:size])
        raw, turn = raw[size:], turn + 1
    assert decode(pieces) == events


def test_a_line_without_end_is_a_fault_not_a_leak() -> None:
    decoder = SseDecoder()
    for _ in range(MAX_LINE // 65_536):
        decoder.feed(b"x" * 65_536)
    with pytest.raises(Unavailable) as caught:
        decoder.feed(b"x" * 65_536)
    assert caught.value.reason == "PROVIDER_STREAM_BROKEN"
