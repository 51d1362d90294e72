"""Bytes to text: encodings, and what isn't text at all."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citewire_retriever.ingest.decode import clean, decode
from citewire_retriever.ingest.errors import IngestCode, IngestError

GERMAN = "Größe aus Köln – naïve façade"
RUSSIAN = "Привет, мир! Это обычный русский текст, записанный в старой кодировке. " * 5
POLISH = "Zażółć gęślą jaźń, wszyscy ludzie rodzą się wolni i równi pod względem swej godności. " * 5


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_western_text_is_read_in_every_usual_encoding(encoding: str) -> None:
    assert decode(GERMAN.encode(encoding)) == GERMAN


def test_cyrillic_and_polish_are_not_taken_for_western() -> None:
    assert decode(RUSSIAN.encode("cp1251")) == RUSSIAN
    assert decode(POLISH.encode("cp1250")) == POLISH


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 16,
        random.Random(3).randbytes(5000),
        b"\x89PNG\r\n\x1a\n" + bytes(200),
        b"# Title\n" + bytes(1000),
        b"\x01\x02\x03\x04" * 20,
    ],
)
def test_binary_data_is_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(IngestError) as caught:
        decode(data)
    assert caught.value.code is IngestCode.UNSUPPORTED_FORMAT
    assert "binary" in caught.value.message


def test_a_stray_control_character_is_dropped() -> None:
    assert decode(b"a\x00b " + b"words " * 100) == "ab " + "words " * 100


@given(st.text(alphabet=st.characters(codec="utf-16-be", exclude_categories=["Cs"]), max_size=300))
def test_what_is_cleaned_can_be_stored(text: str) -> None:
    cleaned = clean(text)
    assert "\0" not in cleaned
    assert "\r" not in cleaned
    cleaned.encode("utf-8")


def test_lone_surrogates_become_replacement_characters() -> None:
    assert clean("a\ud800b\udfffc") == "a\ufffdb\ufffdc"


def test_line_ends_become_one_kind() -> None:
    assert decode(b"a\r\nb\rc\nd") == "a\nb\nc\nd"
