"""Plain text: paragraphs between blank lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_retriever.ingest.document import ParseLimits
from citewire_retriever.ingest.errors import IngestCode, IngestError
from citewire_retriever.ingest.parsers.plain import parse_plain
from ingest_files import LIMITS, check_document, parse_bytes, texts, words


def test_paragraphs_and_lines(tmp_path: Path) -> None:
    document = parse_bytes(tmp_path, "a.txt", "\n\none\ntwo\n   \nthree\n\n\n  four  ")
    assert texts(document) == ["one\ntwo", "three", "  four  "]
    assert [(b.place.start_line, b.place.end_line) for b in document.blocks] == [(3, 4), (6, 6), (9, 9)]


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n  ", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_a_file_without_text_is_reported_as_empty(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.txt", data)
    assert caught.value.code is IngestCode.EMPTY


def test_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.txt", "word " * 300, limits=ParseLimits(max_chars=1000))
    assert caught.value.code is IngestCode.TOO_LARGE
    with pytest.raises(IngestError) as caught:
        parse_bytes(tmp_path, "a.txt", "word\n\n" * 300, limits=ParseLimits(max_blocks=100))
    assert caught.value.code is IngestCode.TOO_LARGE


@pytest.mark.timeout(20)
def test_a_megabyte_of_blanks_is_read_fast() -> None:
    document = parse_plain("a\n" + " " * 1_000_000 + "b" + "\n " * 500_000 + "c", LIMITS)
    assert len(document.blocks) == 2


@given(st.text(alphabet="ab \n\t\x0c", max_size=80))
def test_no_word_is_lost(text: str) -> None:
    document = parse_plain(text, LIMITS)
    check_document(document)
    assert words("\n".join(texts(document))) == words(text)
