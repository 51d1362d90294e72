"""JSON lines from bytes in any pieces."""

from __future__ import annotations

import pytest

from citewire_kit.errors import Unavailable
from citewire_remote.stream_decoders import MAX_LINE, LineDecoder

LINES = [b'{"a":"\xc3\xa4"}', b'{"b":1}', b'{"c":2}']
RAW = LINES[0] + b"\n\n" + LINES[1] + b"\r\n" + LINES[2]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(RAW)])
def test_pieces_of_any_size_give_the_same_lines(size: int) -> None:
    decoder = LineDecoder()
    lines: list[bytes] = []
    for start in range(0, len(RAW), size):
        lines += decoder.feed(RAW[start : start + size])
    assert [line.strip() for line in lines] == LINES[:2]  # the last line isn't complete before the end
    assert decoder.finish() == [LINES[2]]
    assert decoder.finish() == []


def test_a_line_without_an_end_is_a_fault() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"x" * MAX_LINE) == []
    with pytest.raises(Unavailable, match="too long"):
        decoder.feed(b"x")
