"""Subtitles: cues become sentences, and every word keeps its time."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from citewire_retriever.ingest import chunker
from citewire_retriever.ingest.chunks import ChunkRules
from citewire_retriever.ingest.errors import IngestCode, IngestError
from ingest_files import parse_bytes, text_of

SRT = """1
00:00:01,000 --> 00:00:03,500
<i>The tide was high</i>

2
00:00:03,600 --> 00:00:05,000
when we left the harbour.

3
00:01:05,250 --> 00:01:07,000
{\\an8}Nobody
spoke.
4
01:00:00,000 --> 01:00:02,000
Später schon
"""
VTT = """WEBVTT - Interview

STYLE
::cue { color: red }

NOTE not said

intro
00:01.500 --> 00:04.000 align:start
<v Ann Lee>Who was there?</v>

00:05.000 --> 00:06.000
<v.loud Bob>Nobody &amp; no one.
"""


async def count(texts: Sequence[str]) -> list[int]:
    return [len(text) // 4 for text in texts]


def test_cues_are_sentences_with_their_times(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.srt", SRT)
    assert [
        (text_of(document, block), block.place.start_seconds, block.place.end_seconds) for block in document.blocks
    ] == [
        ("The tide was high when we left the harbour.", 1.0, 5.0),
        ("Nobody spoke.", 65.25, 67.0),
        ("Später schon", 3600.0, 3602.0),
    ]


def test_the_speaker_is_before_the_words(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.vtt", VTT)
    assert document.title == "Interview"
    assert [(text_of(document, block), block.place.start_seconds) for block in document.blocks] == [
        ("Ann Lee: Who was there?", 1.5),
        ("Bob: Nobody & no one.", 5.0),
    ]


def test_a_chunk_spans_its_cues_and_has_a_place_for_each(tmp_path: Path) -> None:
    cues = [
        f"{number}\n00:{number // 60:02}:{number % 60:02},000 --> 00:{number // 60:02}:{number % 60:02},900\n"
        f"and then came number {number}{'.' if number % 3 == 2 else ''}\n"
        for number in range(300)
    ]
    document = parse_bytes(tmp_path, "a.srt", "\n".join(cues))
    chunks = asyncio.run(chunker.chunk(document, "A title", ChunkRules(max_tokens=254), count))
    assert 5 < len(chunks) < 100
    for chunk in chunks:
        assert (chunk.place.start_seconds, chunk.place.end_seconds) == (
            chunk.places[0][1].start_seconds,
            chunk.places[-1][1].end_seconds,
        )
        for start, place in chunk.places:
            assert chunk.text[start:].startswith(f"and then came number {place.start_seconds:g}")


def test_times_are_those_in_the_file(tmp_path: Path) -> None:
    place = parse_bytes(tmp_path, "a.srt", "00:00:03,139 --> 00:16:40,003\nYes.\n").blocks[0].place
    assert (place.start_seconds, place.end_seconds) == (3.139, 1000.003)


@pytest.mark.parametrize(
    ("data", "code"), [("Just words.", IngestCode.CORRUPT), ("00:01 --> 00:02\n\n", IngestCode.EMPTY)]
)
def test_subtitles_without_text_are_refused(tmp_path: Path, data: str, code: IngestCode) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.srt", data)
    assert caught.value.code is code


def test_a_cue_of_srt_may_contain_blank_lines(tmp_path: Path) -> None:
    apart = SRT.replace("\n", "\r\r\n").encode()  # line ends that were converted twice
    assert parse_bytes(tmp_path, "a.srt", apart).text == parse_bytes(tmp_path, "a.srt", SRT).text
    cues = "1\n00:01 --> 00:02\nIt was\n\n1984\n\n2\n00:02 --> 00:03\nor later.\n"
    assert parse_bytes(tmp_path, "a.srt", cues).text == "It was 1984 or later."
    unnumbered = "00:01 --> 00:02\nIt was\n1984\n\n00:02 --> 00:03\nor later.\n"
    assert parse_bytes(tmp_path, "a.srt", unnumbered).text == "It was 1984 or later."


def test_captions_that_roll_up_are_said_once(tmp_path: Path) -> None:
    cues = (
        "WEBVTT\n\n00:01.000 --> 00:02.000\nwe left<00:01.500><c> early</c>\n\n"
        "00:02.000 --> 00:02.010\nwe left early\n\n"
        "00:02.010 --> 00:04.000\nwe left early\nand<00:03.000><c> came</c>\n\n"
        "00:09.000 --> 00:10.000\nand came\n"
    )
    document = parse_bytes(tmp_path, "a.vtt", cues)
    assert document.text == "we left early and came\n\nand came"
    first, again = document.blocks
    assert [each.place.start_seconds for each in first.children] == [1.0, 2.01]
    assert again.place.start_seconds == 9.0
